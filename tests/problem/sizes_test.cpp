// sizes_test.cpp - sizes on either side of 2^31 and 2^32, in elements and in bytes: said exactly by a machine of any
// word size, and refused before they wrap where 32 bits cannot address them.
// SPDX-License-Identifier: Apache-2.0
#include "plan_job.hpp"
#include "skip.hpp"

#include <cstdint>

namespace {

using namespace job;

constexpr int64_t kEdges[] = {int64_t{1} << 31, int64_t{1} << 32};
constexpr int32_t kTypes[] = {POLYCONV_S8, POLYCONV_BF16, POLYCONV_F32, POLYCONV_F64};

// A row of that many elements, filtered by one tap.
polyconv_problem row_of(int64_t elements, int32_t type) {
  polyconv_problem p = problem("fwd:n1,c1,k1,i8,f1");
  p.input_size[0] = elements;
  p.input_type = p.weights_type = p.output_type = type;
  return p;
}

// The numbers of elements whose count or whose bytes lie beside an edge.
std::vector<int64_t> counts_beside_edges(int64_t element_bytes) {
  std::vector<int64_t> counts;
  for (const int64_t edge : kEdges)
    for (const int64_t beside : {-1, 0, 1}) {
      counts.push_back(edge + beside);
      counts.push_back(edge / element_bytes + beside);
    }
  return counts;
}

bool of_32_bits() {
  return sizeof(void *) == 4;
}

// A chain whose tensor between the layers, and so its workspace, is 4 bytes larger than 32 bits can say.
std::vector<polyconv_problem> chain_beyond_32_bits() {
  const polyconv_problem layer = row_of((int64_t{1} << 30) + 1, POLYCONV_F32);
  return {layer, layer};
}

} // namespace

TEST_CASE("a tensor's elements and bytes are exact beside 2^31 and 2^32") {
  for (const int32_t type : kTypes) {
    const int64_t element = static_cast<int64_t>(polyconv_type_size(type));
    for (const int64_t count : counts_beside_edges(element)) {
      const polyconv_problem p = row_of(count, type);
      for (const int32_t which : {POLYCONV_TENSOR_INPUT, POLYCONV_TENSOR_OUTPUT}) {
        polyconv_tensor tensor;
        int64_t bytes = 0;
        REQUIRE_MESSAGE(polyconv_problem_tensor(&p, which, &tensor, &bytes) == POLYCONV_SUCCESS, error());
        CHECK(tensor.size[4] == count);
        CHECK(tensor.stride[1] == count); // of the channel
        CHECK(bytes == count * element);
      }
    }
  }
}

TEST_CASE("a token says a size beside 2^31 and 2^32 as it is") {
  for (const int64_t count : counts_beside_edges(1)) {
    const polyconv_problem p = row_of(count, POLYCONV_F32);
    char token[256] = "";
    REQUIRE(polyconv_problem_format(&p, token, sizeof token, nullptr) == POLYCONV_SUCCESS);
    CHECK(contains(token, "i" + std::to_string(count)));
    polyconv_problem read;
    REQUIRE_MESSAGE(polyconv_problem_parse(token, &read) == POLYCONV_SUCCESS, error());
    CHECK(read.input_size[0] == count);
  }
}

TEST_CASE("a workspace beyond 2^32 bytes is not taken for what 32 bits leave of it") {
  const Plan made = plan(chain_beyond_32_bits(), options("reference/*"));
  const int64_t needed = info(made).workspace_bytes;
  CHECK(needed > int64_t{1} << 32);
  float one = 1;
  Aligned workspace(4096);
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  buffers.input = buffers.output = &one; // nothing is read or written
  buffers.weights[0] = buffers.weights[1] = &one;
  buffers.workspace = workspace.data.get();
  buffers.workspace_size = static_cast<size_t>(needed - (int64_t{1} << 32));
  REQUIRE(buffers.workspace_size <= workspace.size);
  CHECK(polyconv_run(made.get(), &buffers, nullptr) == POLYCONV_WORKSPACE_TOO_SMALL);
  CHECK(contains(error(), "expected at least " + std::to_string(needed) + " bytes"));
}

TEST_CASE("32 bits: memory that cannot be addressed is refused, naming the bytes") {
  if (!of_32_bits()) return polyconv_test::skip("64-bit addresses reach any size that a problem may have");
  const std::vector<polyconv_problem> chain = chain_beyond_32_bits();
  float one = 1;
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  buffers.input = buffers.output = &one;
  buffers.weights[0] = buffers.weights[1] = &one;
  const polyconv_options o = options("reference/*");
  const char *const sentence = "buffers.input has 4294967300 bytes, expected at most the 2147483647";
  CHECK(polyconv_convolve(nullptr, chain.data(), 2, &o, &buffers) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), sentence));

  const Plan layer = plan({chain[0]}, options("reference/*"));
  CHECK(polyconv_buffers_check(layer.get(), &buffers) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), sentence));
}
