// disk_test.cpp - files that cannot be written or are no files: full disks, read-only folders, pipes and devices in the
// place of a file. Each is an IO_ERROR with a sentence; what was there before is there afterwards, and nothing else.
// SPDX-License-Identifier: Apache-2.0
#include "../plan_job.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../skip.hpp"

namespace {

using namespace job;
namespace fs = std::filesystem;

struct TemporaryFolder {
  fs::path path = fs::temp_directory_path() / ("polyconv_disk_test_" + std::to_string(getpid()));
  TemporaryFolder() { fs::create_directories(path); }
  ~TemporaryFolder() {
    fs::permissions(path, fs::perms::owner_all);
    fs::remove_all(path);
  }
  std::string file(const char *name) const { return path / name; }
  std::ptrdiff_t files() const { return std::distance(fs::directory_iterator(path), fs::directory_iterator()); }
};

struct Packed {
  Plan made = plan({problem("fwd:n1,c16,k16,i8x8,f3x3")}, options("reference/*"));
  std::vector<float> raw = std::vector<float>(16 * 16 * 9, 1.0f);
  Weights weights;
  Packed() {
    polyconv_weights *w = nullptr;
    REQUIRE(polyconv_weights_create(made.get(), 0, raw.data(), nullptr, nullptr, &w) == POLYCONV_SUCCESS);
    weights.reset(w);
  }
  polyconv_status save(const std::string &path) const { return polyconv_weights_save(weights.get(), path.c_str()); }
  polyconv_status load(const std::string &path) const {
    polyconv_weights *w = nullptr;
    const polyconv_status status = polyconv_weights_load(made.get(), 0, path.c_str(), nullptr, nullptr, &w);
    polyconv_weights_destroy(w);
    return status;
  }
};

// Runs a body in a child that may not write files beyond `bytes`, and gives its exit code.
template <class Body>
int with_limit(rlim_t bytes, Body &&body) {
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit limit = {bytes, bytes};
    std::signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(body());
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool can_write_anywhere() {
  return geteuid() == 0;
}

} // namespace

TEST_CASE("what is no regular file is neither replaced nor read") {
  const TemporaryFolder folder;
  const Packed packed;
  REQUIRE(mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  fs::create_directories(folder.file("folder"));
  fs::create_symlink("/dev/null", folder.file("device"));
  const struct {
    const char *name, *kind;
  } rows[] = {{"pipe", "is a pipe, expected a regular file"},
              {"folder", "is a folder, expected a regular file"},
              {"device", "is a device, expected a regular file"}};
  for (const auto &row : rows) {
    const std::string path = folder.file(row.name);
    CAPTURE(path);
    CHECK(packed.save(path) == POLYCONV_IO_ERROR);
    CHECK(contains(error(), row.kind));
    CHECK(contains(error(), path));
    CHECK(packed.load(path) == POLYCONV_IO_ERROR);
    CHECK(contains(error(), row.kind));
  }
  CHECK(fs::is_fifo(folder.file("pipe")));
  CHECK(fs::is_symlink(folder.file("device")));
  CHECK(folder.files() == 3);
}

TEST_CASE("a link stays a link, and the file behind it is replaced") {
  const TemporaryFolder folder;
  const Packed packed;
  std::ofstream(folder.file("behind")) << "old";
  fs::create_symlink(folder.file("behind"), folder.file("link"));
  REQUIRE(packed.save(folder.file("link")) == POLYCONV_SUCCESS);
  CHECK(fs::is_symlink(folder.file("link")));
  CHECK(fs::file_size(folder.file("behind")) > 9000);
  CHECK(packed.load(folder.file("link")) == POLYCONV_SUCCESS);
  CHECK(folder.files() == 2);
}

TEST_CASE("a disk that is full in the middle of a file leaves the old one") {
  const TemporaryFolder folder;
  const Packed packed;
  const std::string path = folder.file("weights");
  REQUIRE(packed.save(path) == POLYCONV_SUCCESS);
  const auto size = fs::file_size(path);
  for (const rlim_t limit : {rlim_t{0}, rlim_t{1}, rlim_t{40}, rlim_t{60}, rlim_t{4096}, rlim_t{size - 1}}) {
    CAPTURE(limit);
    CHECK(with_limit(limit, [&] {
            if (packed.save(path) != POLYCONV_IO_ERROR) return 1;
            return contains(error(), "could not be written: ") && contains(error(), path) ? 0 : 2;
          }) == 0);
    CHECK(fs::file_size(path) == size);
    CHECK(folder.files() == 1);
    CHECK(packed.load(path) == POLYCONV_SUCCESS);
  }
  CHECK(with_limit(rlim_t{size}, [&] { return static_cast<int>(packed.save(path)); }) == 0);
}

TEST_CASE("a folder that may not be written to, and one that is not there") {
  const TemporaryFolder folder;
  const Packed packed;
  CHECK(packed.save(folder.file("nowhere/weights")) == POLYCONV_IO_ERROR);
  CHECK(contains(error(), "could not be created: "));
  if (can_write_anywhere()) return polyconv_test::skip("root may write to read-only folders");
  fs::permissions(folder.path, fs::perms::owner_read | fs::perms::owner_exec);
  CHECK(packed.save(folder.file("weights")) == POLYCONV_IO_ERROR);
  CHECK(contains(error(), "could not be created: Permission denied"));
  CHECK(folder.files() == 0);
}

TEST_CASE("the bench says so where its results cannot be written") {
  const char *bench = std::getenv("POLYCONV_BENCH");
  if (bench == nullptr) return polyconv_test::skip("polyconv-bench is not built");
  const TemporaryFolder folder;
  const std::string quoted = std::string("'") + bench + "' ", problem = "fwd:n1,c3,k4,i9x9,f3x3 --backend reference ";
  const std::string run = quoted + "run " + problem + "--min-time 0 --cache warm-only --verify never ",
                    explain = quoted + "explain " + problem;
  if (fs::exists("/dev/full"))
    for (const std::string &command : {run + "-o jsonl", explain, quoted + "--help", quoted + "--version",
                                       quoted + "man", quoted + "doctor", quoted + "completion zsh",
                                       "POLYCONV_TUNING=on POLYCONV_TUNING_DB='" + folder.file("db.txt") + "' " +
                                           quoted + "tune " + problem + "--tune 0.01"}) {
      CAPTURE(command);
      const fakes::Result full = fakes::run(command + " >/dev/full");
      CHECK(full.exit_code == 2);
      CHECK(contains(full.err, "polyconv-bench: the output could not be written"));
    }
  const fakes::Result nowhere = fakes::run(explain + "--out '" + folder.file("nowhere/rows.txt") + "'");
  CHECK(nowhere.exit_code == 2);
  CHECK(contains(nowhere.err, "rows.txt"));
}

TEST_CASE("a file that the bench cannot write to its end has what it had") {
  const char *bench = std::getenv("POLYCONV_BENCH");
  if (bench == nullptr) return polyconv_test::skip("polyconv-bench is not built");
  const TemporaryFolder folder;
  const std::string quoted = std::string("'") + bench + "' ", problem = "fwd:n1,c3,k4,i9x9,f3x3 --backend reference ";
  const std::string run = quoted + "run " + problem + "--min-time 0 --cache warm-only --verify never ";
  const std::string results = folder.file("good.jsonl");
  REQUIRE(fakes::run(run + "--out '" + results + "'").exit_code == 0);
  const struct {
    std::string command, name;
  } rows[] = {{run, "rows.jsonl"},
              {run, "rows.csv"},
              {quoted + "explain " + problem, "explained.txt"},
              {quoted + "check " + problem, "checked.txt"},
              {quoted + "info ", "info.json"},
              {quoted + "compare '" + results + "' '" + results + "' ", "changes.md"},
              {quoted + "report '" + results + "' ", "page.html"},
              {quoted + "plot '" + results + "' --x c ", "picture.svg"}};
  for (const auto &row : rows) {
    const std::string path = folder.file(row.name.c_str());
    CAPTURE(row.command);
    std::ofstream(path) << "what was there";
    const fakes::Result limited = fakes::run("trap '' XFSZ; ulimit -f 0; " + row.command + "--out '" + path + "' 2>&1");
    CHECK(limited.exit_code == 2);
    CHECK(contains(limited.out, "polyconv-bench: cannot write the file " + path + ": File too large"));
    std::string text;
    std::getline(std::ifstream(path), text);
    CHECK(text == "what was there");
    CHECK_FALSE(fs::exists(path + ".new"));
  }
  // And with room it is written.
  const std::string path = folder.file("rows.jsonl");
  CHECK(fakes::run(run + "--out '" + path + "'").exit_code == 0);
  CHECK(fs::file_size(path) > 100);
}
