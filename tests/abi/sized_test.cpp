// sized_test.cpp - programs that were built with an older or a newer header than the library: what they hand over is
// read as far as it goes, and nothing that they ask for is lost without a word.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstring>

#include "../plan_job.hpp"

namespace {

using namespace job;

// A struct of a header to come: what is known here, and a field that is not.
template <class Known>
struct Newer {
  Known known;
  int64_t field;
};

const char *const kToken = "fwd:n1,c4,k4,i8x8,f3x3,p1";

polyconv_status plan_with(const polyconv_options *o) {
  const polyconv_problem p = problem(kToken);
  polyconv_plan *plan = nullptr;
  const polyconv_status status = polyconv_plan_create(nullptr, &p, 1, o, &plan);
  polyconv_plan_destroy(plan);
  return status;
}

template <class Struct>
bool all_bytes_are(const Struct &object, size_t from, unsigned char value) {
  const auto *bytes = reinterpret_cast<const unsigned char *>(&object);
  return std::all_of(bytes + from, bytes + sizeof object, [&](unsigned char byte) { return byte == value; });
}

} // namespace

TEST_CASE("a newer program's init knows its size, so that a field nobody here knows is refused, not ignored") {
  Newer<polyconv_options> options;
  std::memset(&options, 0xaa, sizeof options);
  polyconv_options_init_sized(&options.known, sizeof options);
  CHECK(options.known.struct_size == sizeof options);
  CHECK(options.known.workspace_limit == -1);
  CHECK(options.field == 0);
  CHECK(plan_with(&options.known) == POLYCONV_SUCCESS);
  options.field = 7;
  CHECK(plan_with(&options.known) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "expected fields that this version (" + std::string(polyconv_version()) + ") knows"));

  Newer<polyconv_buffers> buffers;
  std::memset(&buffers, 0xaa, sizeof buffers);
  polyconv_buffers_init_sized(&buffers.known, sizeof buffers);
  CHECK(buffers.known.struct_size == sizeof buffers);
  CHECK(buffers.field == 0);
  CHECK(buffers.known.workspace == nullptr);
  std::vector<float> data(2000);
  buffers.known.input = data.data();
  buffers.known.output = data.data() + 500;
  buffers.known.weights[0] = data.data() + 1000;
  const polyconv_problem p = problem(kToken);
  CHECK(polyconv_convolve(nullptr, &p, 1, nullptr, &buffers.known) == POLYCONV_SUCCESS);
  std::memset(&buffers.field, 1, 1); // its first byte, in either byte order
  CHECK(polyconv_convolve(nullptr, &p, 1, nullptr, &buffers.known) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "byte " + std::to_string(offsetof(Newer<polyconv_buffers>, field)) + " is not 0"));
}

TEST_CASE("the symbols of 0.1 fill no more than the structs of 0.1") {
  constexpr size_t kOptions = offsetof(polyconv_options, shared_memory_limit) + sizeof(int64_t);
  constexpr size_t kBuffers = offsetof(polyconv_buffers, workspace_size) + sizeof(size_t);
  Newer<polyconv_options> options; // the old program's struct, and what lies behind it
  std::memset(&options, 0xaa, sizeof options);
  (polyconv_options_init)(&options.known); // in brackets it is the symbol, not the macro
  CHECK(options.known.struct_size == kOptions);
  CHECK(all_bytes_are(options, kOptions, 0xaa));
  CHECK(plan_with(&options.known) == POLYCONV_SUCCESS);
  Newer<polyconv_buffers> buffers;
  std::memset(&buffers, 0xaa, sizeof buffers);
  (polyconv_buffers_init)(&buffers.known);
  CHECK(buffers.known.struct_size == kBuffers);
  CHECK(all_bytes_are(buffers, kBuffers, 0xaa));
}

TEST_CASE("what the library fills is 0 where it is newer than the library, and a size of nothing known is refused") {
  const Plan made = plan({problem(kToken)}, options());
  Newer<polyconv_plan_info> info;
  std::memset(&info, 0xaa, sizeof info);
  info.known.struct_size = sizeof info;
  REQUIRE(polyconv_plan_get_info(made.get(), &info.known) == POLYCONV_SUCCESS);
  CHECK(info.field == 0);
  CHECK(info.known.step_count >= 1);
  info.known.struct_size = ~size_t{0} / 2;
  CHECK(polyconv_plan_get_info(made.get(), &info.known) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "info.struct_size is"));
}
