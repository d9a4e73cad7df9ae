// weights_job.hpp - what tests of packed weights share: a small layer, its weights packed, and the output under them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan_job.hpp"

namespace weights_job {

using namespace job;

inline const char *const kToken = "fwd:n1,c3,k4,i6x6,f3x3:bias";

inline polyconv_options probe(const char *kernels) {
  load("plan_probe");
  return options(kernels);
}

inline bool is_little_endian() {
  const uint32_t one = 1;
  char first = 0;
  std::memcpy(&first, &one, 1);
  return first == 1;
}

// Every f32 of another sign.
inline void negate(std::vector<char> *numbers) {
  for (size_t i = is_little_endian() ? 3 : 0; i < numbers->size(); i += 4)
    (*numbers)[i] = static_cast<char>((*numbers)[i] ^ 0x80);
}

inline Weights create(const Job &job, void *memory = nullptr) {
  polyconv_weights *made = nullptr;
  REQUIRE_MESSAGE(
      polyconv_weights_create(job.plan.get(), 0, job.weights[0].data(), memory, nullptr, &made) == POLYCONV_SUCCESS,
      error());
  return Weights(made);
}

// The output under packed weights.
inline std::vector<char> output_with(Job *job, const polyconv_weights *weights) {
  job->buffers.packed[0] = weights;
  job->poison();
  REQUIRE_MESSAGE(polyconv_run(job->plan.get(), &job->buffers, nullptr) == POLYCONV_SUCCESS, error());
  return job->output;
}

} // namespace weights_job
