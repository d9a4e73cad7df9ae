// weights_file_test.cpp - packed weights as files: one that is damaged anywhere, by one byte, is never taken.
// SPDX-License-Identifier: Apache-2.0
#include "skip.hpp"
#include "weights_job.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace {

using namespace weights_job;
namespace fs = std::filesystem;

struct TemporaryFolder {
  fs::path path = fs::temp_directory_path() / ("polyconv_weights_test_" + std::to_string(polyconv_test::process_id()));
  TemporaryFolder() { fs::create_directories(path); }
  ~TemporaryFolder() { fs::remove_all(path); }
  std::string file(const char *name) const { return (path / name).string(); }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
  }
};

std::vector<char> read_file(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const std::string &path, const std::vector<char> &bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

polyconv_status load_weights(const Plan &made, const std::string &path, void *memory, Weights *weights) {
  polyconv_weights *loaded = nullptr;
  const polyconv_status status = polyconv_weights_load(made.get(), 0, path.c_str(), memory, nullptr, &loaded);
  weights->reset(loaded);
  return status;
}

} // namespace

TEST_CASE("saved weights load again, and a new file replaces an old one whole") {
  const TemporaryFolder folder;
  for (const char *kernel : {"fake-plan-probe/packs", "fake-plan-probe/ties"}) {
    Job job({kToken});
    REQUIRE(job.run(probe(kernel)) == POLYCONV_SUCCESS);
    const std::vector<char> expected = job.output;
    const std::string path = folder.file("weights.bin");
    {
      const Weights weights = create(job);
      REQUIRE_MESSAGE(polyconv_weights_save(weights.get(), path.c_str()) == POLYCONV_SUCCESS, error());
    }
    CHECK(folder.files() == 1); // no temporary file stays
    Weights loaded;
    REQUIRE_MESSAGE(load_weights(job.plan, path, nullptr, &loaded) == POLYCONV_SUCCESS, error());
    CHECK(output_with(&job, loaded.get()) == expected);
    Aligned memory(1024);
    REQUIRE(load_weights(job.plan, path, memory.data.get(), &loaded) == POLYCONV_SUCCESS);
    CHECK(output_with(&job, loaded.get()) == expected);
  }
}

TEST_CASE("the file is as docs/weights-file.md describes it") {
  const TemporaryFolder folder;
  Job job({kToken});
  REQUIRE(job.run(probe("fake-plan-probe/packs")) == POLYCONV_SUCCESS);
  const Weights weights = create(job);
  REQUIRE(polyconv_weights_save(weights.get(), folder.file("w").c_str()) == POLYCONV_SUCCESS);
  const std::vector<char> bytes = read_file(folder.file("w"));
  REQUIRE(bytes.size() > 48);
  CHECK(std::string(bytes.data(), 8) == "PLYCONVW");
  uint32_t id_size = 0, token_size = 0;
  uint64_t data_size = 0;
  std::memcpy(&id_size, bytes.data() + 16, 4);
  std::memcpy(&token_size, bytes.data() + 20, 4);
  std::memcpy(&data_size, bytes.data() + 24, 8);
  CHECK(std::string(bytes.data() + 48, id_size) == "plan_probe:1");
  CHECK(data_size == 432);
  CHECK(bytes.size() == 48 + id_size + token_size + data_size);
}

TEST_CASE("a file damaged in any one byte, cut anywhere or too long is refused, and nothing is written") {
  const TemporaryFolder folder;
  Job job({kToken});
  REQUIRE(job.run(probe("fake-plan-probe/packs")) == POLYCONV_SUCCESS);
  {
    const Weights weights = create(job);
    REQUIRE(polyconv_weights_save(weights.get(), folder.file("good").c_str()) == POLYCONV_SUCCESS);
  }
  const std::vector<char> good = read_file(folder.file("good"));
  Aligned memory(1024);
  const std::vector<char> before(static_cast<char *>(memory.data.get()), static_cast<char *>(memory.data.get()) + 1024);
  const auto check_refused = [&](const std::vector<char> &bytes) {
    const std::string path = folder.file("bad");
    write_file(path, bytes);
    Weights loaded;
    CHECK(load_weights(job.plan, path, memory.data.get(), &loaded) == POLYCONV_IO_ERROR);
    CHECK(loaded == nullptr);
    CHECK(contains(error(), path));
  };
  for (size_t i = 0; i < good.size(); ++i) {
    CAPTURE(i);
    std::vector<char> bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    check_refused(bad);
    check_refused(std::vector<char>(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(i)));
  }
  std::vector<char> longer = good;
  longer.push_back(0);
  check_refused(longer);
  CHECK(contains(error(), "goes on after its data"));
  CHECK(std::memcmp(memory.data.get(), before.data(), before.size()) == 0);
  Weights loaded;
  CHECK(load_weights(job.plan, folder.file("good"), memory.data.get(), &loaded) == POLYCONV_SUCCESS);
}

namespace {

// As docs/weights-file.md has it.
uint64_t checksum(const char *bytes, size_t size, uint64_t sum = 0xcbf29ce484222325u) {
  for (size_t i = 0; i < size; ++i) sum = (sum ^ static_cast<unsigned char>(bytes[i])) * 0x100000001b3u;
  return sum;
}

template <class Number>
size_t number_at(const std::vector<char> &file, size_t at) {
  Number number;
  std::memcpy(&number, &file[at], sizeof number);
  return static_cast<size_t>(number);
}

// A weights file as a machine of the other byte order writes it: every number of the header turned, and the data, of
// elements of `width` bytes, with the checksums that belong to them.
std::vector<char> in_other_order(std::vector<char> file, size_t width) {
  const auto turn = [&](size_t at, size_t size) { std::reverse(&file[at], &file[at] + size); };
  const auto put_checksum = [&](size_t at, uint64_t sum) {
    std::memcpy(&file[at], &sum, sizeof sum);
    turn(at, sizeof sum);
  };
  const size_t texts = number_at<uint32_t>(file, 16) + number_at<uint32_t>(file, 20), data = 48 + texts;
  const size_t bytes = number_at<uint64_t>(file, 24);
  for (size_t i = 0; i + width <= bytes; i += width) turn(data + i, width);
  for (const size_t at : {8, 12, 16, 20}) turn(at, 4);
  turn(24, 8);
  put_checksum(32, checksum(&file[data], bytes));
  put_checksum(40, checksum(&file[48], texts, checksum(file.data(), 40)));
  return file;
}

} // namespace

TEST_CASE("raw weights of the other byte order are read, and packed ones refused") {
  const TemporaryFolder folder;
  const std::string own = folder.file("own"), other = folder.file("other");
  for (const char *token : {kToken, "fwd:n1,c3,k4,i6x6,f3x3:f64", "fwd:n1,c3,k4,i6x6,f3x3:s8"}) {
    CAPTURE(token);
    Job job({token});
    REQUIRE(job.run(options("reference/*")) == POLYCONV_SUCCESS);
    const Weights weights = create(job);
    REQUIRE(polyconv_weights_save(weights.get(), own.c_str()) == POLYCONV_SUCCESS);
    polyconv_tensor tensor;
    REQUIRE(polyconv_problem_tensor(&job.problems[0], POLYCONV_TENSOR_WEIGHTS, &tensor, nullptr) == POLYCONV_SUCCESS);
    const std::vector<char> turned = in_other_order(read_file(own), polyconv_type_size(tensor.type));
    CHECK(turned != read_file(own));
    write_file(other, turned);
    Weights loaded;
    REQUIRE_MESSAGE(load_weights(job.plan, other, nullptr, &loaded) == POLYCONV_SUCCESS, error());
    CHECK(output_with(&job, loaded.get()) == output_with(&job, weights.get()));
    REQUIRE(polyconv_weights_save(loaded.get(), other.c_str()) == POLYCONV_SUCCESS);
    CHECK(read_file(other) == read_file(own)); // what is written is in this machine's order
  }
  Job job({kToken});
  REQUIRE(job.run(probe("fake-plan-probe/packs")) == POLYCONV_SUCCESS);
  const Weights weights = create(job);
  REQUIRE(polyconv_weights_save(weights.get(), own.c_str()) == POLYCONV_SUCCESS);
  write_file(other, in_other_order(read_file(own), 4));
  Weights loaded;
  CHECK(load_weights(job.plan, other, nullptr, &loaded) == POLYCONV_IO_ERROR);
  CHECK(contains(error(), "other byte order"));
  CHECK(contains(error(), "plan_probe:1"));
}

namespace {

// The weights in tests/run/carried, which machines of either byte order wrote by the case after the next.
Weights carried_weights(Job *job) {
  std::vector<float> raw(4 * 3 * 9);
  for (size_t i = 0; i < raw.size(); ++i) raw[i] = 0.25f * static_cast<float>(i) - 3;
  REQUIRE(job->weights[0].size() == raw.size() * sizeof(float));
  std::memcpy(job->weights[0].data(), raw.data(), job->weights[0].size());
  return create(*job);
}

} // namespace

TEST_CASE("weights that an x86-64 or an s390x wrote are the same on every machine, which writes one of these files") {
  const char *source = std::getenv("POLYCONV_SOURCE_DIR");
  if (source == nullptr) return polyconv_test::skip("POLYCONV_SOURCE_DIR does not say where the files are");
  Job job({kToken});
  REQUIRE(job.run(options("reference/*")) == POLYCONV_SUCCESS);
  const Weights expected = carried_weights(&job);
  const TemporaryFolder folder;
  REQUIRE(polyconv_weights_save(expected.get(), folder.file("written").c_str()) == POLYCONV_SUCCESS);
  for (const std::string name : {"x86_64.weights", "s390x.weights"}) {
    CAPTURE(name);
    const fs::path file = fs::path(source) / "tests" / "run" / "carried" / name;
    const bool is_of_own_order = (name == "x86_64.weights") == is_little_endian();
    CHECK((read_file(file.string()) == read_file(folder.file("written"))) == is_of_own_order);
    Weights loaded;
    REQUIRE_MESSAGE(load_weights(job.plan, file.string(), nullptr, &loaded) == POLYCONV_SUCCESS, error());
    CHECK(output_with(&job, loaded.get()) == output_with(&job, expected.get()));
  }
}

TEST_CASE("write carried.weights into the current folder" *
          doctest::skip()) { // --no-skip, on a machine of its own kind
  Job job({kToken});
  REQUIRE(job.run(options("reference/*")) == POLYCONV_SUCCESS);
  const Weights weights = carried_weights(&job);
  CHECK(polyconv_weights_save(weights.get(), "carried.weights") == POLYCONV_SUCCESS);
}

TEST_CASE("missing and foreign files, and paths that cannot be written") {
  const TemporaryFolder folder;
  Job job({kToken});
  REQUIRE(job.run(probe("fake-plan-probe/packs")) == POLYCONV_SUCCESS);
  const Weights weights = create(job);
  Weights loaded;
  CHECK(load_weights(job.plan, folder.file("nowhere"), nullptr, &loaded) == POLYCONV_IO_ERROR);
  CHECK(contains(error(), "cannot be opened: "));
  CHECK(load_weights(job.plan, folder.path.string(), nullptr, &loaded) == POLYCONV_IO_ERROR);
  CHECK(polyconv_weights_save(weights.get(), folder.file("no/such/folder").c_str()) == POLYCONV_IO_ERROR);
  CHECK(contains(error(), "no/such/folder"));
  CHECK(polyconv_weights_save(weights.get(), nullptr) == POLYCONV_INVALID_ARGUMENT);
  CHECK(polyconv_weights_save(nullptr, "x") == POLYCONV_INVALID_ARGUMENT);
  CHECK(polyconv_weights_load(job.plan.get(), 0, nullptr, nullptr, nullptr, nullptr) == POLYCONV_INVALID_ARGUMENT);
  CHECK(folder.files() == 0);

  REQUIRE(polyconv_weights_save(weights.get(), folder.file("w").c_str()) == POLYCONV_SUCCESS);
  const Plan other_format = plan(job.problems, probe("fake-plan-probe/packs_once"));
  CHECK(load_weights(other_format, folder.file("w"), nullptr, &loaded) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "holds format 'plan_probe:1'"));
  CHECK(contains(error(), "expected 'plan_probe_once:1'"));
  const Plan other_problem = plan({problem("fwd:n1,c2,k4,i6x6,f3x3:bias")}, probe("fake-plan-probe/packs"));
  CHECK(load_weights(other_problem, folder.file("w"), nullptr, &loaded) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "c2"));
}

TEST_CASE("packing marks its place in the stream, except for weights that are new in every run") {
  load("device");
  const polyconv_device *fake = nullptr;
  REQUIRE(polyconv_device_find("fake", &fake) == POLYCONV_SUCCESS);
  const auto pending_after_packing = [&](int32_t dynamic_weights) {
    Job job({kToken});
    polyconv_options wanted = options("fake-device/packed");
    wanted.dynamic_weights = dynamic_weights;
    polyconv_status status = POLYCONV_SUCCESS;
    job.plan = try_plan(job.problems, wanted, &status, fake);
    REQUIRE_MESSAGE(status == POLYCONV_SUCCESS, error());
    const size_t bytes = job.weights[0].size();
    void *raw = nullptr, *packed = nullptr, *stream = nullptr;
    REQUIRE(polyconv_stream_create(fake, &stream) == POLYCONV_SUCCESS);
    for (void **memory : {&raw, &packed})
      REQUIRE(polyconv_device_alloc(fake, bytes, POLYCONV_MEMORY_DEVICE, memory) == POLYCONV_SUCCESS);
    REQUIRE(polyconv_device_copy(fake, raw, job.weights[0].data(), bytes, stream) == POLYCONV_SUCCESS);
    REQUIRE(polyconv_device_fill(fake, packed, 0, bytes, stream) == POLYCONV_SUCCESS); // no packed weights of before
    REQUIRE(polyconv_stream_synchronize(fake, stream) == POLYCONV_SUCCESS);
    polyconv_weights *made = nullptr;
    REQUIRE(polyconv_weights_create(job.plan.get(), 0, raw, packed, stream, &made) == POLYCONV_SUCCESS);
    const Weights weights(made);
    const TemporaryFolder folder;
    REQUIRE(polyconv_weights_save(weights.get(), folder.file("w").c_str()) == POLYCONV_SUCCESS);
    std::vector<char> tail = read_file(folder.file("w"));
    tail.erase(tail.begin(), tail.end() - static_cast<std::ptrdiff_t>(bytes));
    negate(&tail); // as the fake's packing does
    const bool pending = tail != job.weights[0];
    CHECK(polyconv_stream_synchronize(fake, stream) == POLYCONV_SUCCESS);
    for (void *memory : {raw, packed})
      CHECK(polyconv_device_free(fake, memory, POLYCONV_MEMORY_DEVICE) == POLYCONV_SUCCESS);
    CHECK(polyconv_stream_destroy(fake, stream) == POLYCONV_SUCCESS);
    return pending;
  };
  CHECK_FALSE(pending_after_packing(POLYCONV_WEIGHTS_CONSTANT));
  CHECK_FALSE(pending_after_packing(POLYCONV_WEIGHTS_UPDATED));
  CHECK(pending_after_packing(POLYCONV_WEIGHTS_NEW)); // the caller waits
}

TEST_CASE("packing asks whose memory it is given, for weights that are new in every run where the plan checks") {
  load("device");
  const polyconv_device *fake = nullptr;
  REQUIRE(polyconv_device_find("fake", &fake) == POLYCONV_SUCCESS);
  Aligned host(1024);
  const auto pack_into_host_memory = [&](int32_t dynamic_weights, int32_t checked) {
    Job job({kToken});
    polyconv_options wanted = options("fake-device/packed");
    wanted.dynamic_weights = dynamic_weights, wanted.checked = checked;
    polyconv_status status = POLYCONV_SUCCESS;
    job.plan = try_plan(job.problems, wanted, &status, fake);
    REQUIRE_MESSAGE(status == POLYCONV_SUCCESS, error());
    polyconv_weights *made = nullptr;
    status = polyconv_weights_create(job.plan.get(), 0, job.weights[0].data(), host.data.get(), nullptr, &made);
    polyconv_weights_destroy(made);
    REQUIRE(status != POLYCONV_SUCCESS); // the device cannot write there
    return error();
  };
  const char *const asked = "memory is host memory, expected memory of device fake";
  CHECK(contains(pack_into_host_memory(POLYCONV_WEIGHTS_UPDATED, 0), asked));
  CHECK(contains(pack_into_host_memory(POLYCONV_WEIGHTS_NEW, 1), asked));
  CHECK_FALSE(contains(pack_into_host_memory(POLYCONV_WEIGHTS_NEW, 0), asked));
}

TEST_CASE("weights of a device with memory of its own are saved from there and loaded to there") {
  load("device");
  const polyconv_device *fake = nullptr;
  REQUIRE(polyconv_device_find("fake", &fake) == POLYCONV_SUCCESS);
  const TemporaryFolder folder;
  const char *kernel = nullptr;
  SUBCASE("packed weights in the device's memory") {
    kernel = "fake-device/packed";
  }
  SUBCASE("packed weights that run takes along from the host") {
    kernel = "fake-device/hosted";
  }
  Job job({kToken});
  polyconv_status status = POLYCONV_SUCCESS;
  job.plan = try_plan(job.problems, options(kernel), &status, fake);
  REQUIRE_MESSAGE(status == POLYCONV_SUCCESS, error());
  const size_t bytes = job.weights[0].size();
  void *raw = nullptr, *stream = nullptr;
  REQUIRE(polyconv_stream_create(fake, &stream) == POLYCONV_SUCCESS);
  REQUIRE(polyconv_device_alloc(fake, bytes, POLYCONV_MEMORY_DEVICE, &raw) == POLYCONV_SUCCESS);
  REQUIRE(polyconv_device_copy(fake, raw, job.weights[0].data(), bytes, stream) == POLYCONV_SUCCESS);
  polyconv_weights *made = nullptr;
  REQUIRE_MESSAGE(polyconv_weights_create(job.plan.get(), 0, raw, nullptr, stream, &made) == POLYCONV_SUCCESS, error());
  const Weights weights(made);
  REQUIRE_MESSAGE(polyconv_weights_save(weights.get(), folder.file("w").c_str()) == POLYCONV_SUCCESS, error());
  std::vector<char> tail = read_file(folder.file("w"));
  tail.erase(tail.begin(), tail.end() - static_cast<std::ptrdiff_t>(bytes));
  negate(&tail); // as the fake's packing does
  CHECK(tail == job.weights[0]);
  Weights loaded;
  REQUIRE_MESSAGE(load_weights(job.plan, folder.file("w"), nullptr, &loaded) == POLYCONV_SUCCESS, error());
  REQUIRE(polyconv_weights_save(loaded.get(), folder.file("again").c_str()) == POLYCONV_SUCCESS);
  CHECK(read_file(folder.file("w")) == read_file(folder.file("again")));

  Aligned host(1024);
  CHECK(load_weights(job.plan, folder.file("w"), host.data.get(), &loaded) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "memory is host memory, expected memory of device fake"));
  Job on_cpu({kToken});
  on_cpu.plan = plan(on_cpu.problems, probe("fake-plan-probe/ties"));
  on_cpu.prepare_run();
  on_cpu.buffers.packed[0] = weights.get();
  CHECK(polyconv_run(on_cpu.plan.get(), &on_cpu.buffers, nullptr) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "lies on fake"));
  polyconv_device_free(fake, raw, POLYCONV_MEMORY_DEVICE);
  polyconv_stream_destroy(fake, stream);
}
