// weights_fuzz.cpp - any bytes as a file of packed weights (docs/weights-file.md). Where the first byte is odd the
// checksums are made right, since no mutation would meet them by chance, so that what lies behind them is reached too.
// SPDX-License-Identifier: Apache-2.0
#include "bytes.hpp"
#include "checks.hpp"
#include "scratch_file.hpp"

#include <vector>

namespace {

constexpr size_t kHeaderBytes = 48, kIdSizeAt = 16, kTokenSizeAt = 20, kDataSumAt = 32, kHeaderSumAt = 40;

uint64_t fnv1a(uint64_t sum, const uint8_t *data, size_t size) {
  for (size_t i = 0; i < size; ++i) sum = (sum ^ data[i]) * 0x100000001b3u;
  return sum;
}

void mend_checksums(std::vector<uint8_t> &file) {
  constexpr uint64_t kStart = 0xcbf29ce484222325u;
  if (file.size() < kHeaderBytes) return;
  uint32_t id = 0, token = 0;
  std::memcpy(&id, &file[kIdSizeAt], sizeof id);
  std::memcpy(&token, &file[kTokenSizeAt], sizeof token);
  const size_t text = static_cast<size_t>(id) + token;
  if (text > file.size() - kHeaderBytes) return;
  const uint8_t *data = file.data() + kHeaderBytes + text;
  const uint64_t data_sum = fnv1a(kStart, data, file.size() - kHeaderBytes - text);
  std::memcpy(&file[kDataSumAt], &data_sum, sizeof data_sum);
  const uint64_t header_sum = fnv1a(fnv1a(kStart, file.data(), kHeaderSumAt), file.data() + kHeaderBytes, text);
  std::memcpy(&file[kHeaderSumAt], &header_sum, sizeof header_sum);
}

polyconv_plan *make_plan() {
  polyconv_problem problem;
  polyconv_options options;
  polyconv_options_init(&options);
  options.threads = 1;
  polyconv_plan *plan = nullptr;
  polyconv_fuzz::require(polyconv_problem_parse("fwd:n1,c4,k4,i8x8,f3x3,p1", &problem) == POLYCONV_SUCCESS &&
                             polyconv_plan_create(nullptr, &problem, 1, &options, &plan) == POLYCONV_SUCCESS,
                         "the plan that reads the files");
  return plan;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static polyconv_plan *const plan = make_plan();
  static polyconv_fuzz::ScratchFile scratch("weights.bin");
  polyconv_fuzz::Bytes bytes(data, size);
  const bool mend = bytes.yes();
  const std::string text = bytes.rest();
  std::vector<uint8_t> file(text.begin(), text.end());
  if (mend) mend_checksums(file);
  scratch.write(file.data(), file.size());
  polyconv_weights *weights = nullptr;
  if (polyconv_weights_load(plan, 0, scratch.path().c_str(), nullptr, nullptr, &weights) != POLYCONV_SUCCESS)
    polyconv_fuzz::require(polyconv_last_error()[0] != '\0', "a refused file gets a sentence");
  polyconv_weights_destroy(weights);
  return 0;
}
