// windows_test.cpp - paths as Windows has them, in UTF-8 and of any length, and the places in which DLLs are looked
// for: beside the backend and in the system's folders, never in the current one.
// SPDX-License-Identifier: Apache-2.0
#include "plan_job.hpp"

#include <io.h>

#include <filesystem>
#include <fstream>

#include "platform.hpp"

namespace {

using namespace job;
namespace fs = std::filesystem;

// What lies in a folder of any length; std::filesystem cannot list behind \\?\.
std::vector<fs::path> entries(const fs::path &folder) {
  std::vector<fs::path> all;
  _wfinddata_t entry;
  const intptr_t search = _wfindfirst((folder / "*").c_str(), &entry);
  if (search == -1) return all;
  do
    if (std::wstring(entry.name) != L"." && std::wstring(entry.name) != L"..") all.push_back(folder / entry.name);
  while (_wfindnext(search, &entry) == 0);
  _findclose(search);
  return all;
}

// But for DLLs that this process has loaded.
void remove_tree(const fs::path &folder) {
  for (const fs::path &entry : entries(folder))
    if (_wunlink(entry.c_str()) != 0) remove_tree(entry);
  _wrmdir(folder.c_str());
}

// A folder for one test case, with letters that no code page of eight bits has together.
struct TemporaryFolder {
  fs::path path =
      fs::temp_directory_path() / fs::u8path("polyconv Übung 卷积 " + std::to_string(polyconv_test::process_id()));
  TemporaryFolder() {
    remove(); // an earlier process of that number may have left its DLLs
    fs::create_directories(path);
  }
  ~TemporaryFolder() { remove(); }
  void remove() const { remove_tree(L"\\\\?\\" + path.wstring()); }
};

// The current folder, for as long as this lives.
struct Inside {
  fs::path before = fs::current_path();
  explicit Inside(const fs::path &folder) { fs::current_path(folder); }
  ~Inside() { fs::current_path(before); }
};

polyconv_status save(const Job &job, const std::string &path) {
  polyconv_weights *made = nullptr;
  REQUIRE(polyconv_weights_create(job.plan.get(), 0, job.weights[0].data(), nullptr, nullptr, &made) ==
          POLYCONV_SUCCESS);
  const Weights weights(made);
  return polyconv_weights_save(weights.get(), path.c_str());
}

polyconv_status read_back(const Job &job, const std::string &path) {
  polyconv_weights *loaded = nullptr;
  const polyconv_status status = polyconv_weights_load(job.plan.get(), 0, path.c_str(), nullptr, nullptr, &loaded);
  const Weights weights(loaded);
  return status;
}

// `folder` and folders below it that make a path of at least `length` characters, made one by one behind \\?\.
std::string deep_folder(const fs::path &folder, size_t length) {
  std::string path = folder.u8string();
  while (path.size() < length) {
    path += "\\a folder with a name that goes on for some time";
    fs::create_directory(fs::u8path("\\\\?\\" + path));
  }
  return path;
}

const char *const kToken = "fwd:n1,c3,k4,i6x6,f3x3:bias";

} // namespace

// The first case, because a process searches once.
TEST_CASE("backends are searched beside the library, and neither in the current folder nor in relative ones") {
  const TemporaryFolder folder;
  fs::create_directories(folder.path / "polyconv");
  for (const char *name : {"libpolyconv_fake_good.dll", "polyconv/libpolyconv_fake_good.dll"})
    fs::copy_file(fs::u8path(fakes::path("good")), folder.path / name);
  const Inside inside(folder.path);
  REQUIRE(_putenv("POLYCONV_BACKEND_PATH=.;polyconv") == 0);
  bool reference = false;
  for (int32_t i = 0; i < polyconv_backend_count(); ++i) {
    polyconv_backend_info info{};
    info.struct_size = sizeof info;
    REQUIRE(polyconv_backend_get(i, &info) == POLYCONV_SUCCESS);
    reference = reference || std::string(info.name) == "reference";
    CHECK(fs::u8path(info.path).parent_path() != folder.path);
    CHECK(fs::u8path(info.path).parent_path() != folder.path / "polyconv");
  }
  CHECK(reference);
}

TEST_CASE("weights go to and come from paths in UTF-8, with either slash, and beyond 260 characters") {
  const TemporaryFolder folder;
  Job job({kToken});
  REQUIRE(job.run(options("reference/*")) == POLYCONV_SUCCESS);
  const std::string plain = folder.path.u8string() + "\\gewichte – 權重.bin";
  std::string slashes = plain;
  std::replace(slashes.begin(), slashes.end(), '\\', '/');
  const std::string deep = deep_folder(folder.path, 300) + "\\weights.bin";
  REQUIRE(deep.size() > 300);
  for (const std::string &path : {plain, slashes, deep}) {
    CAPTURE(path);
    REQUIRE_MESSAGE(save(job, path) == POLYCONV_SUCCESS, error());
    CHECK_MESSAGE(read_back(job, path) == POLYCONV_SUCCESS, error());
  }
  CHECK(fs::exists(fs::u8path(plain)));
  const fs::path there = fs::u8path("\\\\?\\" + deep);
  CHECK(fs::exists(there));
  CHECK(entries(there.parent_path()).size() == 1); // nothing temporary
  const Inside inside(folder.path);
  REQUIRE(save(job, "weights here") == POLYCONV_SUCCESS);
  CHECK(fs::exists(folder.path / "weights here"));
}

TEST_CASE("what cannot be opened or written is named, with the system's reason") {
  const TemporaryFolder folder;
  Job job({kToken});
  REQUIRE(job.run(options("reference/*")) == POLYCONV_SUCCESS);
  const std::string missing = folder.path.u8string() + "\\nicht da – 無.bin";
  CHECK(read_back(job, missing) == POLYCONV_IO_ERROR);
  CHECK(contains(error(), missing));
  CHECK(contains(error(), "cannot be opened: "));
  CHECK(read_back(job, folder.path.u8string()) == POLYCONV_IO_ERROR);
  CHECK(contains(error(), "is a folder"));
  CHECK(save(job, folder.path.u8string() + "\\no\\such\\folder") == POLYCONV_IO_ERROR);
  CHECK(contains(error(), "could not be created: "));
}

TEST_CASE("a backend loads from a path in UTF-8 and from one beyond 260 characters, and from no relative one") {
  const TemporaryFolder folder;
  const fs::path good = fs::u8path(fakes::path("good"));
  const std::string deep = deep_folder(folder.path, 300) + "\\libpolyconv_fake_good.dll";
  fs::copy_file(good, fs::u8path("\\\\?\\" + deep));
  REQUIRE_MESSAGE(polyconv_backend_load(deep.c_str()) == POLYCONV_SUCCESS, error());
  const fs::path plan_probe = folder.path / "libpolyconv_fake_plan_probe.dll";
  fs::copy_file(fs::u8path(fakes::path("plan_probe")), plan_probe);
  const Inside inside(folder.path);
  for (const char *path :
       {"libpolyconv_fake_plan_probe.dll", ".\\libpolyconv_fake_plan_probe.dll", "C:libpolyconv_fake_plan_probe.dll"}) {
    CAPTURE(path);
    CHECK(polyconv_backend_load(path) == POLYCONV_INVALID_ARGUMENT);
    CHECK(contains(error(), "expected an absolute path"));
  }
  CHECK_MESSAGE(polyconv_backend_load(plan_probe.u8string().c_str()) == POLYCONV_SUCCESS, error());
}

TEST_CASE("a backend's DLLs are taken from beside it, and not from the current folder") {
  const TemporaryFolder folder;
  const fs::path build = fakes::build_tests() / "windows";
  const std::string backend = "libpolyconv_wants_astray.dll", library = "libpolyconv_astray.dll";
  fs::create_directories(folder.path / "backends");
  fs::copy_file(build / "wants_astray" / backend, folder.path / "backends" / backend);
  fs::copy_file(build / "astray" / library, folder.path / library);
  const Inside inside(folder.path);
  const std::string path = (folder.path / "backends" / backend).u8string();
  CHECK(polyconv_backend_load(path.c_str()) == POLYCONV_UNAVAILABLE);
  CHECK(contains(error(), "does not load: "));
  fs::copy_file(folder.path / library, folder.path / "backends" / library);
  CHECK_MESSAGE(polyconv_backend_load(path.c_str()) == POLYCONV_SUCCESS, error());
}
