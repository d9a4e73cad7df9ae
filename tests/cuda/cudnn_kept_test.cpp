// cudnn_kept_test.cpp - the file in which the cudnn backend keeps what its searches found: of regular files alone, and
// in numbers that no locale changes. Needs neither a GPU nor cuDNN.
// SPDX-License-Identifier: Apache-2.0
#include "cudnn/kept.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <clocale>
#include <filesystem>
#include <fstream>
#include <random>

using polyconv::cudnn::Kept;
using polyconv::cudnn::KeptChoices;

namespace {

class Path {
 public:
  Path()
      : path_(std::filesystem::temp_directory_path() / ("polyconv_kept_" + std::to_string(std::random_device()()))) {}
  ~Path() {
    std::error_code not_there;
    std::filesystem::remove(path_, not_there);
  }
  Path(const Path &) = delete;
  Path &operator=(const Path &) = delete;

  std::string name() const { return path_.string(); }
  void write(const std::string &text) const { std::ofstream(path_) << text; }
  std::string text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  const std::filesystem::path path_;
};

const Kept kChoice = {"nhwc/eng28{2=1}", 17.3, 133, false, 300};

} // namespace

TEST_CASE("what was kept is found again for its layer alone, and cut short only for no longer a budget") {
  const Path path;
  const KeptChoices one(path.name(), "one"), other(path.name(), "other");
  CHECK(!one.find(10));
  CHECK(one.add(kChoice).empty());
  CHECK(path.text() == "one\tnhwc/eng28{2=1} 17.30 us of 133, cut 0, budget 300\n");
  REQUIRE(one.find(1000));
  CHECK(one.find(1000)->engine == kChoice.engine);
  CHECK(one.find(1000)->us == 17.3);
  CHECK(one.find(1000)->measured == 133);
  CHECK(!other.find(10));
  CHECK(other.add({"nchw/eng3", 9, 4, true, 50}).empty());
  CHECK(other.find(50));
  CHECK(!other.find(51));
  CHECK(!KeptChoices("", "one").find(10));
  CHECK(KeptChoices("", "one").add(kChoice).empty());
}

TEST_CASE("words of somebody else are passed over") {
  const Path path;
  const KeptChoices choices(path.name(), "one");
  for (const char *words : {"nhwc/eng28 of somebody else", "nhwc/eng28", "", "nhwc/eng28 9.00 us of 9, cut 0, budget",
                            "nhwc/eng28 9,00 us of 9, cut 0, budget 50", "nhwc/eng28 nan us of 9, cut 0, budget 50",
                            "nhwc/eng28 inf us of 9, cut 0, budget 50",
                            "nhwc/eng28 9.00 us of 9, cut 0, budget 5one\tnhwc/eng3 9.00 us of 9, cut 0, budget 50"}) {
    path.write(std::string("one\t") + words + "\n");
    CHECK_MESSAGE(!choices.find(1), words);
  }
}

TEST_CASE("numbers do not follow the locale") {
  const char *before = std::setlocale(LC_ALL, nullptr);
  const std::string kept = before == nullptr ? "C" : before;
  for (const char *locale : {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "C.UTF-8"}) {
    if (std::setlocale(LC_ALL, locale) == nullptr) continue;
    const Path path;
    const KeptChoices choices(path.name(), "one");
    CHECK(choices.add(kChoice).empty());
    CHECK(path.text() == "one\tnhwc/eng28{2=1} 17.30 us of 133, cut 0, budget 300\n");
    REQUIRE(choices.find(1));
    CHECK(choices.find(1)->us == 17.3);
  }
  std::setlocale(LC_ALL, kept.c_str());
}

TEST_CASE("a pipe, a device or a folder is neither waited for nor written to") {
  const Path pipe;
  REQUIRE(mkfifo(pipe.name().c_str(), 0600) == 0);
  for (const std::string &name : {pipe.name(), std::string("/dev/null"), std::string("/")}) {
    const KeptChoices choices(name, "one");
    CHECK(!choices.find(1));
    CHECK(choices.add(kChoice) == name + " is no regular file");
  }
  const KeptChoices nowhere(pipe.name() + "/file", "one");
  CHECK(!nowhere.find(1));
  CHECK(!nowhere.add(kChoice).empty());
}
