// files_test.cpp - what may lie in a folder of backends instead of one: pipes, folders, devices, libraries that are cut
// off, tables that are damaged, code that anybody may change. Each is refused with a reason, by name and in the search,
// and nothing hangs.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/polyconv.h>

#include <fstream>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../fake_backends/fakes.hpp"
#include "../sanitized.hpp"
#include "../skip.hpp"

namespace {

namespace fs = std::filesystem;

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

struct TemporaryFolder {
  fs::path path = fs::temp_directory_path() / ("polyconv_hostile_test_" + std::to_string(getpid()));
  TemporaryFolder() { fs::create_directories(path); }
  ~TemporaryFolder() { fs::remove_all(path); }
  std::string file(const std::string &name) const { return path / ("libpolyconv_" + name + ".so"); }
};

void check_refused(const std::string &path, const std::string &reason) {
  CAPTURE(path);
  CHECK(polyconv_backend_load(path.c_str()) == POLYCONV_UNAVAILABLE);
  const std::string error = polyconv_last_error();
  CAPTURE(error);
  CHECK(contains(error, reason));
}

// What a fresh process says of the backends in a folder; dead where it takes longer than a minute.
std::vector<fakes::Listed> listed_in(const std::string &folder) {
  const fakes::Result result = fakes::list("POLYCONV_BACKEND_PATH='" + folder + "' timeout 60");
  CHECK(result.exit_code == 0);
  return fakes::parse(result.out);
}

std::string bytes_of(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

} // namespace

TEST_CASE("a pipe, a folder and a device are no libraries, and nobody waits for them") {
  const TemporaryFolder folder;
  REQUIRE(mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  fs::create_directories(folder.file("folder"));
  fs::create_symlink("/dev/zero", folder.file("device"));
  fs::create_symlink("/nowhere/at/all", folder.file("nowhere"));
  check_refused(folder.file("pipe"), "it is a pipe, expected a shared library");
  check_refused(folder.file("folder"), "it is a folder, expected a shared library");
  check_refused(folder.file("device"), "it is a device, expected a shared library");
  check_refused(folder.file("nowhere"), "No such file or directory");
  const auto all = listed_in(folder.path);
  for (const char *name : {"pipe", "folder", "device", "nowhere"}) {
    CAPTURE(name);
    REQUIRE(fakes::find(all, name) != nullptr);
    CHECK(fakes::find(all, name)->available == "missing");
  }
}

TEST_CASE("a library that is cut off anywhere is refused") {
  const TemporaryFolder folder;
  const std::string whole = bytes_of(fakes::path("good"));
  for (const size_t percent : {0, 1, 2, 5, 10, 20, 35, 50, 65, 80}) {
    const std::string path = folder.file("cut" + std::to_string(percent));
    std::ofstream(path, std::ios::binary) << whole.substr(0, whole.size() * percent / 100);
    check_refused(path, ""); // once only symbols for debuggers are missing, its name is what is wrong with it
  }
  std::ofstream(folder.file("headers"), std::ios::binary) << whole.substr(0, 5000);
  check_refused(folder.file("headers"), "it is cut off: it has 5000 bytes, expected ");
  CHECK(listed_in(folder.path).size() >= 10);
}

TEST_CASE("damaged tables: sizes and counts beyond all sense") {
  const struct {
    const char *fake, *reason;
  } rows[] = {
      {"huge_table", "its table claims 18446744073709551615 bytes"},
      {"huge_kernel", "the table of kernel 0 claims 1099511627776 bytes"},
      {"many_kernels", "claims 2147483647 kernels, expected at most 4096"},
      {"many_configs", "has config_count 2147483647, expected 1 to 65536"},
  };
  for (const auto &row : rows) check_refused(fakes::path(row.fake), row.reason);
}

TEST_CASE("a backend that counts devices beyond all sense brings none") {
  REQUIRE(polyconv_backend_load(fakes::path("many_devices").c_str()) == POLYCONV_SUCCESS);
  const polyconv_device *device = nullptr;
  CHECK(polyconv_device_find("many:0", &device) == POLYCONV_UNAVAILABLE);
  CHECK(contains(polyconv_last_error(), "counts 2147483647 devices of kind 'many', expected at most 1024"));
  CHECK(polyconv_device_count() >= 1);
}

TEST_CASE("an initialiser that throws is a reason, and leaves the dynamic linker free for other threads") {
  if (polyconv_test::kSanitized) return polyconv_test::skip("a sanitizer watches the locks that are given back");
  check_refused(fakes::path("throws_on_load"),
                "a static initialiser threw an exception: the fake cannot be initialised");
  std::thread([] {
    Dl_info info;
    CHECK(dladdr(reinterpret_cast<const void *>(&polyconv_version), &info) != 0);
    CHECK(polyconv_backend_load(fakes::path("newer_minor").c_str()) == POLYCONV_SUCCESS);
  }).join();
  check_refused(fakes::path("throws_on_load"), "a static initialiser threw"); // not half initialised, the second time
  const auto all = listed_in(fakes::folder("throws_on_load") + ":" + fakes::folder("good"));
  REQUIRE(fakes::find(all, "fake-good") != nullptr);
  CHECK(fakes::find(all, "fake-good")->available == "available");
  CHECK(contains(fakes::find(all, "fake-throws-on-load")->reason, "the fake cannot be initialised"));
}

TEST_CASE("code that everyone may change is not loaded") {
  struct stat library;
  const fs::path lib = fakes::build_tests().parent_path() / "lib";
  if (stat(lib.c_str(), &library) != 0 || (library.st_mode & S_IWOTH) != 0)
    return polyconv_test::skip("the library's own folder is open to everyone here, so nothing is refused");
  const TemporaryFolder folder;
  const std::string path = folder.file("fake_second_good_of_all");
  fs::copy_file(fakes::path("good"), path);
  REQUIRE(chmod(folder.path.c_str(), 0777) == 0);
  if (stat(folder.path.c_str(), &library) != 0 || (library.st_mode & S_IWOTH) == 0)
    return polyconv_test::skip("this file system has no permissions");
  const std::string of_folder = "lies in '" + fs::canonical(folder.path).string() + "', to which everyone may write";
  check_refused(path, of_folder);
  const auto all = listed_in(folder.path);
  REQUIRE(fakes::find(all, "fake-second-good-of-all") != nullptr);
  CHECK(contains(fakes::find(all, "fake-second-good-of-all")->reason, of_folder));
  // As in /tmp, where only its owner may put another file in its place: then the name is what is wrong with it.
  REQUIRE(chmod(folder.path.c_str(), 01777) == 0);
  check_refused(path, "calls itself 'fake-good'");
  REQUIRE(chmod(folder.path.c_str(), 0755) == 0);
  check_refused(path, "calls itself 'fake-good'");
  REQUIRE(chmod(path.c_str(), 0666) == 0);
  check_refused(path, "everyone may write to it");
  // A link into such a folder is no better than the folder.
  REQUIRE(chmod(path.c_str(), 0644) == 0);
  fs::create_directories(folder.path / "closed");
  REQUIRE(chmod(folder.path.c_str(), 0777) == 0);
  const std::string link = folder.path / "closed" / "libpolyconv_link.so";
  fs::create_symlink(path, link);
  check_refused(link, of_folder);
}
