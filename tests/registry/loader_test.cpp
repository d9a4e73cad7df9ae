// loader_test.cpp - whatever lies in a backends' folder ends up in the list, available or with a reason in words, and
// nothing of it takes the process down. The rules of the search are watched from fresh processes.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/backend.h>

#include <fstream>
#include <set>

#if !defined(_WIN32)
#include <unistd.h>
#endif

#include "fake_backends/fakes.hpp"
#include "platform.hpp"
#include "skip.hpp"

namespace {

namespace fs = std::filesystem;

constexpr bool kWide = sizeof(void *) == 8; // sizes of tables are those of pointers

// Every fake that must not become available, and what the reason must say.
struct Rejected {
  const char *fake, *reason;
};
const Rejected kRejected[] = {
    {"newer_abi", "speaks a newer plug-in ABI (it exports polyconv_backend_query_v2"},
    {"no_symbol", "exports no polyconv_backend_query_v1"},
    {"not_a_library", "does not load: "},
#if !defined(_WIN32) // which asks a library for its own symbols alone, and does not say what it misses (windows_test)
    {"symbol_in_dependency", "the symbol comes from"},
    {"missing_library", "libpolyconv_fake_driver.so: "},
#endif
    {"short_table",
     kWide ? "its table has 64 bytes, expected at least 72" : "its table has 36 bytes, expected at least 40"},
    {"short_kernel", kWide ? "the table of kernel 0 has 80 bytes, expected at least 88"
                           : "the table of kernel 0 has 44 bytes, expected at least 48"},
    {"no_table", "answered the query with success but no table"},
    {"null_entry", "kernel 'nothing' has no run"},
    {"null_name", "has no name"},
    {"null_probe", "has no probe"},
    {"null_kind", "serves devices of kind 'NULL'"},
    {"null_kernels", "has no kernels"},
    {"null_kernel", "kernel 0 of its table is NULL"},
    {"no_kernels", "offers 0 kernels, expected at least 1"},
    {"nameless_kernel", "kernel 0 is called 'NULL'"},
    {"nameless_config", "kernel 'nothing' has no name for its config 0"},
    {"long_kernel", "xxx...', expected a name of at most 128 a-z, 0-9 and _"},
    {"long_config", "kernel 'nothing' has a name of 2000 characters for its config 0, expected at most 128"},
    {"long_version", "kernel 'nothing' has a version of 2000 characters, expected at most 128"},
    {"no_configs", "kernel 'nothing' has config_count 0"},
    {"same_kernels", "has two kernels called 'nothing'"},
    {"wrong_name", "calls itself 'somebody-else', expected 'fake-wrong-name'"},
#if defined(__GLIBC__) || defined(_WIN32)
    {"throws_in_query", "query threw a C++ exception across the C ABI (the fake cannot be queried)"},
    {"throws_in_probe", "probe threw a C++ exception across the C ABI (the fake cannot be probed)"},
#else // each library may have a C++ library of its own, and none knows the other's exceptions
    {"throws_in_query", "query threw a C++ exception across the C ABI"},
    {"throws_in_probe", "probe threw a C++ exception across the C ABI"},
#endif
    {"throws_in_config_name", "config_name threw a C++ exception across the C ABI"},
    {"refuses_host", "needs a library of plug-in ABI 1.99 or newer"},
    {"refuses_silently", "query returned status 3 (unavailable) without a reason"},
    {"unavailable", "needs a machine that nobody has built yet"},
};

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

polyconv_backend_info info_of(const std::string &name, int32_t *index = nullptr) {
  polyconv_backend_info info{};
  for (int32_t i = 0; i < polyconv_backend_count(); ++i) {
    info.struct_size = sizeof info;
    REQUIRE(polyconv_backend_get(i, &info) == POLYCONV_SUCCESS);
    if (info.name == name) {
      if (index != nullptr) *index = i;
      return info;
    }
  }
  FAIL("backend '" << name << "' is not listed");
  return info;
}

std::string user_name(std::string fake) {
  for (char &c : fake) {
    if (c == '_') c = '-';
  }
  return "fake-" + fake;
}

// A folder for one test case. Windows keeps what is loaded until the process ends: the next one to make a folder of
// that name removes it.
struct TemporaryFolder {
  fs::path path;
  TemporaryFolder() {
    static int made = 0;
    path = fs::temp_directory_path() /
           ("polyconv_loader_test_" + std::to_string(polyconv_test::process_id()) + "_" + std::to_string(made++));
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

// What a fresh process finds with this POLYCONV_BACKEND_PATH.
fakes::Result search(const std::string &path, const std::string &arguments = "") {
  return fakes::list(fakes::World{{{"POLYCONV_BACKEND_PATH", path}}}, arguments);
}

const std::string kGoodFile = std::string("libpolyconv_fake_good") + fakes::suffix;

} // namespace

TEST_CASE("a backend that cannot serve is refused and listed, both with its reason") {
  for (const Rejected &rejected : kRejected) {
    CAPTURE(std::string(rejected.fake));
    const std::string path = fakes::path(rejected.fake);
    REQUIRE(fs::exists(path));
    CHECK(polyconv_backend_load(path.c_str()) == POLYCONV_UNAVAILABLE);
    const std::string error = polyconv_last_error();
    CAPTURE(error);
    CHECK(contains(error, rejected.reason));
    CHECK(contains(error, path));
    const polyconv_backend_info info = info_of(user_name(rejected.fake));
    CHECK(info.available == 0);
    CHECK(contains(info.reason, rejected.reason));
    CHECK(info.path == path);
  }
}

TEST_CASE("a good backend loads once, with kernels and configs by name") {
  const std::string path = fakes::path("good");
  REQUIRE(polyconv_backend_load(path.c_str()) == POLYCONV_SUCCESS);
  int32_t index = -1;
  const polyconv_backend_info info = info_of("fake-good", &index);
  CHECK(info.available == 1);
  CHECK(std::string(info.version) == "1.2.3");
  CHECK(std::string(info.device_kind) == "cpu");
  CHECK(std::string(info.reason) == "a note of the good fake");
  CHECK(info.path == path);
  REQUIRE(info.kernel_count == 2);
  CHECK(std::string(polyconv_backend_kernel(index, 0)) == "fake-good/direct");
  CHECK(std::string(polyconv_backend_kernel(index, 1)) == "fake-good/negated");
  CHECK(polyconv_backend_kernel(index, 2) == nullptr);
  CHECK(polyconv_backend_kernel(index, -1) == nullptr);
  CHECK(polyconv_backend_kernel(-1, 0) == nullptr);
  CHECK(polyconv_backend_kernel(10000, 0) == nullptr);
  CHECK(std::string(polyconv_backend_config(index, 0, 0)) == "plain");
  CHECK(std::string(polyconv_backend_config(index, 1, 1)) == "second");
  CHECK(polyconv_backend_config(index, 1, 2) == nullptr);
  CHECK(polyconv_backend_config(index, 1, -1) == nullptr);
  CHECK(polyconv_backend_config(index, 2, 0) == nullptr);

  CHECK(polyconv_backend_load(path.c_str()) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(polyconv_last_error(), "backend 'fake-good' is already loaded from '" + path + "'"));
  const std::string other = fakes::path("second_good", "fake_good");
  CHECK(polyconv_backend_load(other.c_str()) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(polyconv_last_error(), other));
  CHECK(info_of("fake-good").path == path);
}

TEST_CASE("a backend of a newer minor loads") {
  REQUIRE(polyconv_backend_load(fakes::path("newer_minor").c_str()) == POLYCONV_SUCCESS);
  const polyconv_backend_info info = info_of("fake-newer-minor");
  CHECK(info.available == 1);
  CHECK(info.abi_minor == POLYCONV_BACKEND_ABI_MINOR + 7);
  CHECK(info.kernel_count == 1);
}

TEST_CASE("a backend that calls the library while it loads is answered") {
  const int32_t before = polyconv_backend_count();
  REQUIRE(polyconv_backend_load(fakes::path("calls_back").c_str()) == POLYCONV_SUCCESS);
  CHECK(std::string(info_of("fake-calls-back").version) == "saw " + std::to_string(before));
  // Also when it is the search that loads it.
  const auto all = fakes::parse(search(fakes::folder("calls_back")).out);
  REQUIRE(fakes::find(all, "fake-calls-back") != nullptr);
  CHECK(fakes::find(all, "fake-calls-back")->available == "available");
}

TEST_CASE("a backend that failed may be loaded again once it is there") {
  const TemporaryFolder folder;
  const std::string path = (folder.path / ("libpolyconv_fake_on_request" + std::string(fakes::suffix))).string();
  CHECK(polyconv_backend_load(path.c_str()) == POLYCONV_UNAVAILABLE);
#if defined(_WIN32) // in its own words
  CHECK(contains(polyconv_last_error(), "does not load: "));
#else
  CHECK(contains(polyconv_last_error(), "No such file or directory"));
#endif
  const polyconv_backend_info old = info_of("fake-on-request");
  CHECK(old.available == 0);
  const int32_t count = polyconv_backend_count();
  fs::copy_file(fakes::path("on_request"), path);
  CHECK(polyconv_backend_load(path.c_str()) == POLYCONV_SUCCESS);
  CHECK(info_of("fake-on-request").available == 1);
  CHECK(polyconv_backend_count() == count);
  CHECK(std::string(old.name) == "fake-on-request"); // strings handed out stay good
}

TEST_CASE("bad arguments get a sentence and change nothing") {
  const int32_t count = polyconv_backend_count();
  struct Bad {
    std::string path, sentence;
  };
  const std::string root = fakes::root, suffix = fakes::suffix;
  const Bad bad[] = {
      {"", "path is '', expected an absolute path"},
      {kGoodFile, "path is '" + kGoodFile + "', expected an absolute path"},
      {"./" + kGoodFile, "expected an absolute path"},
      {root + "/usr/lib/libm" + suffix, "expected a file called libpolyconv_<name>" + suffix},
      {root + "/tmp/libpolyconv_" + suffix, "expected a file called"},
      {root + "/tmp/libpolyconv_a" + suffix + ".1", "expected a file called"},
      {root + "/tmp/libpolyconv_A" + suffix, "<name> of a-z, 0-9 and _"},
      {root + "/tmp/libpolyconv_a/", "expected a file called"},
  };
  CHECK(polyconv_backend_load(nullptr) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(polyconv_last_error(), "path is NULL, expected an absolute path"));
  for (const Bad &one : bad) {
    CHECK(polyconv_backend_load(one.path.c_str()) == POLYCONV_INVALID_ARGUMENT);
    const std::string error = polyconv_last_error();
    CAPTURE(error);
    CHECK(contains(error, one.sentence));
  }
  CHECK(polyconv_backend_count() == count);

  polyconv_backend_info info{};
  info.struct_size = sizeof info;
  CHECK(polyconv_backend_get(0, nullptr) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(polyconv_last_error(), "info is NULL"));
  CHECK(polyconv_backend_get(-1, &info) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(polyconv_last_error(), "index is -1, expected 0 to"));
  CHECK(polyconv_backend_get(count, &info) == POLYCONV_INVALID_ARGUMENT);
  CHECK(info.name == nullptr);
  info.struct_size = 0;
  CHECK(polyconv_backend_get(0, &info) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(polyconv_last_error(), "info.struct_size is 0"));
}

TEST_CASE("a struct is filled as far as its size covers, with 0 where it is newer than the library") {
  struct Newer {
    polyconv_backend_info known;
    int64_t beyond;
  } newer{};
  newer.known.struct_size = sizeof newer;
  newer.beyond = 42;
  REQUIRE(polyconv_backend_count() > 0);
  CHECK(polyconv_backend_get(0, &newer.known) == POLYCONV_SUCCESS);
  CHECK(newer.known.struct_size == sizeof newer);
  CHECK(newer.known.name != nullptr);
  CHECK(newer.beyond == 0); // not known here
}

TEST_CASE("the list is in the order of names, without doubles") {
  std::set<std::string> names;
  std::string last;
  for (int32_t i = 0; i < polyconv_backend_count(); ++i) {
    polyconv_backend_info info{};
    info.struct_size = sizeof info;
    REQUIRE(polyconv_backend_get(i, &info) == POLYCONV_SUCCESS);
    CHECK(last < info.name);
    last = info.name;
    CHECK(info.reason != nullptr);
  }
}

TEST_CASE("the search lists every wrong backend and still finds the good one") {
  std::string path;
  for (const Rejected &rejected : kRejected) path += fakes::folder(rejected.fake) + fakes::list_separator;
  path += fakes::root + std::string("/nowhere/at/all") + fakes::list_separator + fakes::list_separator;
  const fakes::Result result = search(path + fakes::folder("good"));
  REQUIRE(result.exit_code == 0);
  CHECK(result.err == "");
  CHECK(contains(result.out, "last error\t\n")); // what went wrong in the search is no error of the caller's
  const auto all = fakes::parse(result.out);
  for (const Rejected &rejected : kRejected) {
    CAPTURE(std::string(rejected.fake));
    const fakes::Listed *listed = fakes::find(all, user_name(rejected.fake));
    REQUIRE(listed != nullptr);
    CHECK(listed->available == "missing");
    CHECK(contains(listed->reason, rejected.reason));
  }
  REQUIRE(fakes::find(all, "fake-good") != nullptr);
  CHECK(fakes::find(all, "fake-good")->available == "available");
}

TEST_CASE("of two backends with one name the first found wins") {
  const std::string first = fakes::folder("second_good"), second = fakes::folder("good");
  const auto all = fakes::parse(search(first + fakes::list_separator + second).out);
  REQUIRE(fakes::find(all, "fake-good") != nullptr);
  CHECK(fs::path(fakes::find(all, "fake-good")->path) == fs::path(first) / kGoodFile);
}

TEST_CASE("neither relative folders nor the current folder are searched") {
  const TemporaryFolder folder;
  fs::create_directories(folder.path / "polyconv");
  for (const std::string &place : {kGoodFile, "polyconv/" + kGoodFile}) {
    fs::copy_file(fakes::path("good"), folder.path / place);
  }
  for (const char *value : {".", "polyconv", "./polyconv", ""}) {
    CAPTURE(value);
    const fakes::Result result = fakes::list(
        fakes::World{{{"POLYCONV_LOG", "warning"}, {"POLYCONV_BACKEND_PATH", value}}, folder.path.string()});
    CHECK(result.exit_code == 0);
    CHECK(fakes::find(fakes::parse(result.out), "fake-good") == nullptr);
    CHECK(contains(result.err, "expected absolute folders: ignored") == (value[0] != '\0'));
  }
  const fakes::Result absolute =
      fakes::list(fakes::World{{{"POLYCONV_BACKEND_PATH", folder.path.string()}}, folder.path.string()});
  CHECK(fakes::find(fakes::parse(absolute.out), "fake-good") != nullptr);
}

#if !defined(_WIN32) // windows_test looks at the library's own folder there
TEST_CASE("the library's own folder is searched, however the library was named") {
  if (fakes::emulator()[0] != '\0') return polyconv_test::skip("an emulator preloads nothing");
  const TemporaryFolder folder;
  const fs::path lib = folder.path / "lib";
  fs::create_directories(lib / "polyconv");
  const fs::path built = fakes::build_tests().parent_path() / "lib" / "libpolyconv.so.0";
  if (!fs::exists(built)) return polyconv_test::skip("the library is not at " + built.string());
  fs::copy_file(built, lib / "libpolyconv.so.0");
  fs::copy_file(fakes::path("good"), lib / "polyconv" / "libpolyconv_fake_good.so");
  // A relative name, and afterwards one that no longer leads anywhere: neither may be looked up from where we are.
  const fakes::Result result = fakes::list("cd '" + folder.path.string() +
                                           "' && ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 "
                                           "LD_PRELOAD=lib/libpolyconv.so.0");
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
  const auto all = fakes::parse(result.out);
  REQUIRE(fakes::find(all, "fake-good") != nullptr);
  CHECK(fs::equivalent(fakes::find(all, "fake-good")->path, lib / "polyconv" / "libpolyconv_fake_good.so"));
}

TEST_CASE("a privileged program ignores POLYCONV_BACKEND_PATH") {
  if (geteuid() != 0) return polyconv_test::skip("only root can make a privileged program");
  if (fakes::emulator()[0] != '\0') return polyconv_test::skip("an emulator gives no privileges");
  const TemporaryFolder folder;
  const std::string program = folder.path / "list_backends";
  fs::copy_file(fakes::build_tests() / "list_backends", program);
  fs::permissions(folder.path, fs::perms::all);
  constexpr uid_t kNobody = 65534;
  REQUIRE(chown(program.c_str(), kNobody, kNobody) == 0);
  fs::permissions(program, fs::perms::set_uid | fs::perms::owner_all | fs::perms::others_exec | fs::perms::others_read |
                               fs::perms::group_all);
  const std::string assign = "POLYCONV_LOG=debug POLYCONV_BACKEND_PATH='" + fakes::folder("good") + "' ";
  const fakes::Result result = fakes::run(assign + program);
  CAPTURE(result.err);
  if (result.exit_code != 0) return polyconv_test::skip("a program of another user cannot run here");
  CHECK(fakes::find(fakes::parse(result.out), "fake-good") == nullptr);
  CHECK(result.err == "");
}

#endif

TEST_CASE("searching starts no thread and is safe from several at once") {
  const std::string path = fakes::folder("good") + fakes::list_separator + fakes::folder("device");
  const fakes::Result single = search(path);
  REQUIRE(single.exit_code == 0);
  std::istringstream lines(single.out);
  long before = 0, after = 0;
  for (std::string line; std::getline(lines, line);) {
    if (std::sscanf(line.c_str(), "threads\t%ld\t%ld", &before, &after) == 2) CHECK(before == after);
    if (line.compare(0, 7, "search\t") == 0) MESSAGE("the first search took " << line.substr(7));
  }
  CHECK(before >= 1);
  const fakes::Result race = search(path, "--race");
  CHECK(race.exit_code == 0);
  CHECK(race.err == "");
}
