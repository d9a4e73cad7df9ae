// step_run.hpp - one run of a kernel that only pools, converts or goes back through activation and pooling, asked
// through the plug-in ABI; and the tensors that the checks of steps.hpp share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>

#include <string>
#include <vector>

namespace conformance {

constexpr int kPoison = 0x7f;

struct Kernel {
  const polyconv_kernel *table = nullptr;
  int32_t config = 0;
  const polyconv_device *device = nullptr; // the first of the backend's kind
};

polyconv_tensor tensor(int32_t type, const int64_t (&size)[5], bool channels_last, int64_t gap);
size_t bytes_of(const polyconv_tensor &t);

template <class Visit>
void for_places(const polyconv_tensor &t, const Visit &visit) {
  for (int64_t n = 0; n < t.size[0]; ++n)
    for (int64_t c = 0; c < t.size[1]; ++c)
      for (int64_t d = 0; d < t.size[2]; ++d)
        for (int64_t h = 0; h < t.size[3]; ++h)
          for (int64_t w = 0; w < t.size[4]; ++w) visit(n, c, d, h, w);
}

// Small whole numbers with many equals, so that the first of them must win; a NaN where the type has one.
std::vector<unsigned char> numbers(const polyconv_tensor &t, bool with_nan);

polyconv_layer step_layer(const polyconv_tensor &input, const polyconv_tensor &result, int32_t sum_type);

// Window 2x3x2, stride 1x2x3, pads 0x1x1 and 1x2x0, on 3x8x9; and the size of what that leaves.
polyconv_pool sample_pool(int32_t kind, int32_t count_include_pad);
constexpr int64_t kPooled[5] = {2, 5, 3, 5, 3};

// What a step reads and writes beside its input and output; what is empty is not there.
struct Besides {
  std::vector<unsigned char> saved, slope, scale; // saved is read or written
  std::vector<unsigned char> bias, residual_gradient;
};

// Whether the kernel takes a step: asked first, for what the step should say takes longer than most kernels' answer,
// no.
bool takes_step(const Kernel &kernel, int32_t op, const polyconv_layer &layer);

// Runs a step that the kernel takes. With a pointer: `saved` is all that there is besides, or nothing.
void run_step(const Kernel &kernel, int32_t op, const polyconv_layer &layer, const std::vector<unsigned char> &input,
              std::vector<unsigned char> &output, std::vector<unsigned char> *saved);
void run_step(const Kernel &kernel, int32_t op, const polyconv_layer &layer, const std::vector<unsigned char> &input,
              std::vector<unsigned char> &output, Besides &besides);

// A part of check_steps.
int check_gradients(const Kernel &kernel, const std::string &name);

} // namespace conformance
