// tensor_inverted.cu - MobileNetV2's inverted residual, f16 and bf16, channels last: 1 x 1, depthwise 3 x 3 and 1 x 1
// on the matrix units, the expanded tensor never beyond a tile of a few of its channels.
//
// Floor: the input and the result once, at the rate of a copy.
// SPDX-License-Identifier: Apache-2.0
#include "common/types.hpp"
#include "mobile/fused.hpp"

namespace polyconv::cuda {
namespace {

using namespace mobile;

struct Inverted {
  static constexpr int layers = 3;
  static constexpr const char *name = "cuda-chain/tensor_inverted";
  static MobileLayers of(const polyconv_layer *const *l) { return {l[0], l[1], l[2]}; }
  static MobileKernel find(int32_t type, const Mobile &m) {
    return of_half(type, [&](auto t) { return find_inverted<decltype(t)>(m.rows, m.step, m.pairs); });
  }
};

} // namespace

extern const sdk::Kernel kernel_tensor_inverted;
const sdk::Kernel kernel_tensor_inverted = mobile::mobile_kernel<Inverted>("tensor_inverted");

} // namespace polyconv::cuda
