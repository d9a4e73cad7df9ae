// lenet_test.cpp - the example lenet from outside: it learns, resumes to the bit, leaves whole files, and says in one
// sentence what is wrong; on real images it is as good as its shipped weights promise.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace fs = std::filesystem;

namespace {

const std::string kSource = std::getenv("POLYCONV_SOURCE_DIR");
const std::string kLenet = std::string(std::getenv("POLYCONV_BINARY_DIR")) + "/bin/lenet";

std::string contents(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

void write_gzip(const std::string &path, const std::string &bytes) {
  const gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) == static_cast<int>(bytes.size()));
  REQUIRE(gzclose(file) == Z_OK);
}

std::string idx(const std::vector<uint32_t> &header, const std::string &bytes) {
  std::string result;
  for (const uint32_t number : header)
    for (int shift = 24; shift >= 0; shift -= 8) result.push_back(static_cast<char>(number >> shift));
  return result + bytes;
}

// A folder with a task that a small network learns: which quarter of the picture is bright; and the network.
class World {
 public:
  World() : path_(fs::temp_directory_path() / ("polyconv_lenet_" + std::to_string(std::random_device()()))) {
    fs::create_directories(path_);
    make("train", 480), make("t10k", 120);
    write(*this / "small.net", "input 8x8 repeat2 border1\nlayer k4,f3x3:bias+relu+maxpool2\nlayer k4,f8x8:bias\n");
  }
  ~World() { fs::remove_all(path_); }
  World(const World &) = delete;
  World &operator=(const World &) = delete;
  std::string operator/(const std::string &name) const { return (path_ / name).string(); }

  struct Run {
    int code;
    std::string text; // stdout and stderr
  };
  Run lenet(const std::string &arguments, bool stderr_alone = false) const {
    const std::string log = *this / "log";
    const int status = std::system(
        ("'" + kLenet + "' " + arguments + (stderr_alone ? " >/dev/null 2>'" + log + "'" : " >'" + log + "' 2>&1"))
            .c_str());
    return {WEXITSTATUS(status), contents(log)};
  }
  // Training on the folder's data, with more arguments.
  std::string training(const std::string &more) const {
    return "train --net '" + *this / "small.net" + "' --data '" + path_.string() + "' --batch 32 " + more;
  }

  static std::string picture(size_t i, std::mt19937 &random) {
    std::string pixels;
    for (size_t y = 0; y < 8; ++y)
      for (size_t x = 0; x < 8; ++x) {
        const bool bright = y / 4 * 2 + x / 4 == i % 4;
        pixels.push_back(static_cast<char>(random() % 100 + (bright ? 100 : 0)));
      }
    return pixels;
  }

 private:
  void make(const std::string &part, uint32_t count) const {
    std::mt19937 random(count);
    std::string pixels, labels;
    for (size_t i = 0; i < count; ++i) {
      pixels += picture(i, random);
      labels.push_back(static_cast<char>(i % 4));
    }
    write_gzip(*this / (part + "-images-idx3-ubyte.gz"), idx({0x803, count, 8, 8}, pixels));
    write(*this / (part + "-labels-idx1-ubyte"), idx({0x801, count}, labels)); // plain files are read too
  }
  fs::path path_;
};

std::string option(const World &world, const std::string &name, const std::string &file) {
  return " --" + name + " '" + world / file + "'";
}

bool holds(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("a network learns, its checkpoint tests as well, and the pictures are drawn") {
  const World world;
  const World::Run trained =
      world.lenet(world.training("--epochs 6 --rate 0.01" + option(world, "checkpoint", "run.lenet") +
                                 option(world, "curve", "curve.svg") + option(world, "export", "weights.lenet")));
  INFO(trained.text);
  REQUIRE(trained.code == 0);
  CHECK(holds(contents(world / "curve.svg"), "</svg>"));
  CHECK(!fs::exists(world / "run.lenet.tmp"));
  CHECK(fs::file_size(world / "weights.lenet") < fs::file_size(world / "run.lenet") / 4);
  for (const std::string file : {"run.lenet", "weights.lenet"})
    for (const std::string type : {"f32", "f16", "bf16"}) {
      const World::Run tested =
          world.lenet("test --net '" + world / "small.net" + "' --data '" + world / "" + "' --expect 0.95 --dtype " +
                      type + option(world, "weights", file) + option(world, "confusion", "confusion.svg"));
      INFO(tested.text);
      CHECK(tested.code == 0);
      CHECK(holds(tested.text, "op time 1: "));
      CHECK(holds(tested.text, "op time 2: "));
      CHECK(holds(contents(world / "confusion.svg"), "taken for"));
      // The same guesses from one plan of all layers.
      const World::Run fused = world.lenet("test --fused --net '" + world / "small.net" + "' --data '" + world / "" +
                                           "' --dtype " + type + option(world, "weights", file));
      INFO(fused.text);
      CHECK(fused.code == 0);
      CHECK(holds(fused.text, "op time all: "));
      CHECK(fused.text.substr(0, fused.text.find('\n')) == tested.text.substr(0, tested.text.find('\n')));
    }
}

TEST_CASE("training repeats to the bit, also where it is interrupted and resumed") {
  const World world;
  // The second half of a checkpoint, parameters and moments, without the checksum: the times of epochs lie before.
  const auto state = [&](const std::string &file, const std::string &more) {
    const World::Run result = world.lenet(world.training(more + option(world, "checkpoint", file)));
    INFO(result.text);
    REQUIRE(result.code == 0);
    const std::string bytes = contents(world / file);
    return bytes.substr(bytes.size() / 2, bytes.size() - bytes.size() / 2 - 4);
  };
  for (const std::string optimiser : {"adam --rate 0.01", "momentum --rate 0.02"}) {
    const std::string run = "--threads 2 --optimiser " + optimiser + " --epochs ";
    const std::string whole = state("a.lenet", run + "3");
    CHECK((state("b.lenet", run + "3") == whole));
    CHECK((state("c.lenet", run + "3 --stop-after 1") != whole));
    CHECK((state("c.lenet", run + "3 --resume") == whole));
  }
}

TEST_CASE("half types and the other optimiser learn too") {
  const World world;
  for (const std::string type : {"f16", "bf16"})
    for (const std::string optimiser : {"adam --rate 0.01", "momentum --rate 0.02"}) {
      const World::Run trained = world.lenet(world.training("--epochs 8 --dtype " + type + " --optimiser " + optimiser +
                                                            option(world, "checkpoint", "run.lenet")));
      INFO(trained.text);
      REQUIRE(trained.code == 0);
      CHECK(world
                .lenet("test --expect 0.9 --net '" + world / "small.net" + "' --data '" + world / "" + "'" +
                       option(world, "weights", "run.lenet"))
                .code == 0);
    }
}

TEST_CASE("time prints layers over batches, sizes and channels") {
  const World world;
  const World::Run timed = world.lenet("time --net '" + world / "small.net" + "' --batch 2,5");
  INFO(timed.text);
  CHECK(timed.code == 0);
  for (const char *words : {"op time 1", "op time 2", "batch 2 ", "batch 5 ", "size x4", "channels x8"})
    CHECK(holds(timed.text, words));
  CHECK(holds(world.lenet("time --fused --net '" + world / "small.net" + "' --batch 2").text, ", one plan: "));
}

TEST_CASE("what is wrong with data, networks and files gets one sentence and an exit code") {
  const World world;
  const std::string images = world / "train-images-idx3-ubyte.gz", labels = world / "train-labels-idx1-ubyte";
  const std::string good_images = contents(images), good_labels = contents(labels), net = world / "small.net";
  const std::string good_net = contents(net);
  const auto refused = [&](const std::string &arguments, int code, const std::string &says) {
    const World::Run result = world.lenet(arguments, true);
    CAPTURE(arguments);
    INFO(result.text);
    CHECK(result.code == code);
    CHECK(holds(result.text, says));
    CHECK(result.text.find('\n') + 1 == result.text.size()); // one line
  };
  const auto with_file = [&](const std::string &path, const std::string &bytes, const std::string &says) {
    const std::string before = contents(path);
    write(path, bytes);
    refused(world.training("--epochs 1"), 1, says);
    write(path, before);
  };
  refused("train --net '" + net + "' --data /nowhere", 1, "/nowhere: holds neither train-images-idx3-ubyte nor");
  with_file(images, good_images.substr(0, good_images.size() / 2), "truncated");
  std::string damaged = good_images;
  damaged[damaged.size() / 2] = static_cast<char>(~damaged[damaged.size() / 2]);
  with_file(images, damaged, "train-images-idx3-ubyte.gz: is damaged");
  with_file(images, good_labels, "begins with 2049; expected 2051");
  with_file(images, idx({0x803, 480, 8, 8}, "short"), "is truncated: expected 30715 more bytes");
  with_file(images, idx({0x803, 1, 8, 8}, std::string(65, 'x')), "labels; expected 1, one an image");
  with_file(images, idx({0x803, 0, 8, 8}, ""), "says 0 images");
  with_file(images, idx({0x803, 480, 7, 8}, std::string(480 * 56, 'x')), "images of 7x8; expected 8x8");
  with_file(labels, idx({0x801, 480}, std::string(480, '\x04')), "the label 4; expected 0..3");
  with_file(labels, good_labels.substr(0, 100), "is truncated");
  with_file(labels, good_labels + "x", "is longer than its header says");
  with_file(net, "layer k4,f8x8\n", "small.net:1: a layer before the line that says input");
  with_file(net, "input 8x8\n", "ends without a layer");
  with_file(net, "input 8x8\nlayer k4,f9x9:bias\n", "small.net:2: ");
  with_file(net, "input 8x8\nlayer k4,f3x3:bias\n", "expected one pixel a class");
  with_file(net, "input 8x8\nlayer k257,f8x8:bias\n", "expected at most 256 classes");
  with_file(net, "input 8x8\nlayer k4,f8x8:relu\n", "no activation in the last layer");
  with_file(net, "input 8x8\nlayer k4,f8x8:f16\n", "no type");
  with_file(net, "input 8by8\n", "'8by8'; expected the size");
  with_file(net, "input 8x8 repeat0\n", "expected repeat and a number from 1");
  with_file(net, "output 4\n", "'output'; expected input or layer");
  refused("train --net /nowhere/x.net", 1, "/nowhere/x.net: cannot be read");
  refused(world.training("--epochs 1 --dtype f8"), 2, "expected f32, f16 or bf16");
  refused(world.training("--epochs 1 --device nosuch"), 3, "nosuch");
  refused(world.training("--epochs 1 --kernel nosuch/none"), 3, "nosuch/none");
  refused(world.training("--epochs 1 --resume"), 2, "expected --checkpoint FILE");
  refused(world.training("--epochs 1 --checkpoint /nowhere/x.lenet --images 32"), 1,
          "/nowhere/x.lenet: cannot be written");
}

TEST_CASE("a checkpoint that is missing, damaged or another network's is refused") {
  const World world;
  const std::string path = world / "run.lenet",
                    resume = "--resume --epochs 3" + option(world, "checkpoint", "run.lenet");
  const auto refused = [&](const std::string &says) {
    const World::Run result = world.lenet(world.training(resume));
    INFO(result.text);
    CHECK(result.code == 1);
    CHECK(holds(result.text, says));
  };
  refused("run.lenet: cannot be read");
  REQUIRE(world.lenet(world.training("--epochs 1 --images 64" + option(world, "checkpoint", "run.lenet"))).code == 0);
  const std::string good = contents(path);
  write(path, good.substr(0, good.size() - 7));
  refused("truncated or corrupt");
  std::string damaged = good;
  damaged[good.size() / 2] = static_cast<char>(~damaged[good.size() / 2]);
  write(path, damaged);
  refused("its checksum is wrong");
  write(path, "no checkpoint");
  refused("is no checkpoint of this program");
  write(path, good);
  const std::string net = contents(world / "small.net");
  write(world / "small.net", "input 8x8\nlayer k4,f8x8:bias\n");
  refused("is a checkpoint of another network");
  write(world / "small.net", net);
  CHECK(contents(path) == good);
  CHECK(world.lenet(world.training(resume)).code == 0);
}

TEST_CASE("a loss that is not finite, a full disk and an interrupt leave the checkpoint before") {
  const World world;
  const std::string path = world / "run.lenet", keep = option(world, "checkpoint", "run.lenet");
  REQUIRE(world.lenet(world.training("--epochs 1" + keep)).code == 0);
  const std::string good = contents(path);
  const World::Run diverged = world.lenet(
      world.training("--epochs 9 --optimiser momentum --rate 1e30 --checkpoint '" + world / "new.lenet" + "'"));
  INFO(diverged.text);
  CHECK(diverged.code == 1);
  CHECK(holds(diverged.text, "the loss is not finite at batch"));
  CHECK(!fs::exists(world / "new.lenet"));

  const World::Run full = world.lenet(world.training("--epochs 1 --checkpoint /dev/full"));
  INFO(full.text);
  CHECK(full.code == 1);
  CHECK(holds(full.text, "/dev/full: cannot be written: No space left on device"));
  // A file that may not grow is a disk that is full half way.
  const int limited = std::system(("ulimit -f 1; trap '' XFSZ; '" + kLenet + "' " +
                                   world.training("--resume --epochs 2" + keep) + " >/dev/null 2>&1")
                                      .c_str());
  CHECK(WEXITSTATUS(limited) == 1);
  CHECK(contents(path) == good);
  CHECK(!fs::exists(path + ".tmp"));

  const pid_t child = fork();
  if (child == 0) {
    const std::string data = world / "", net = world / "small.net";
    execl(kLenet.c_str(), "lenet", "train", "--net", net.c_str(), "--data", data.c_str(), "--resume", "--epochs",
          "90000", "--checkpoint", path.c_str(), static_cast<char *>(nullptr));
    _exit(127);
  }
  while (contents(path) == good) std::this_thread::sleep_for(std::chrono::milliseconds(20)); // one epoch more
  kill(child, SIGINT);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 130);
  CHECK(world
            .lenet("test --net '" + world / "small.net" + "' --data '" + world / "" + "'" +
                   option(world, "weights", "run.lenet"))
            .code == 0);
}

TEST_CASE("on real images the shipped weights are as good as they promise, in f16 too") {
  const char *shared = std::getenv("POLYCONV_SHARED_DATA");
  const struct {
    const char *net, *weights;
    std::string data;
    double expected; // on the first 3000 test images
  } cases[] = {
      {"strided", "strided-fashion", "/usr/share/datasets/fashion-mnist", 0.88},
      {"lenet86", "lenet86-fashion", "/usr/share/datasets/fashion-mnist", 0.89},
      {"strided", "strided-mnist", shared == nullptr ? "" : std::string(shared) + "/mnist", 0.975},
  };
  const World world;
  for (const auto &one : cases) {
    const std::string folder = kSource + "/examples/lenet/";
    if (!fs::is_directory(one.data)) {
      MESSAGE("skipped: " << std::string(one.weights) << ", no images in '" << one.data << "'");
      continue;
    }
    const auto accuracy = [&](const std::string &type, const std::string &more = "") {
      const World::Run tested =
          world.lenet("test --images 3000 " + more + "--net '" + folder + "nets/" + one.net + ".net' --weights '" +
                      folder + "weights/" + one.weights + ".lenet' --data '" + one.data + "' --dtype " + type);
      INFO(tested.text);
      REQUIRE(tested.code == 0);
      const std::string before = "accuracy ";
      return std::stod(tested.text.substr(tested.text.find(before) + before.size()));
    };
    CAPTURE(std::string(one.weights));
    const double exact = accuracy("f32");
    CHECK(exact >= one.expected);
    CHECK(std::abs(accuracy("f16") - exact) <= 0.002);
    CHECK(accuracy("f32", "--fused ") == exact);
  }
}
