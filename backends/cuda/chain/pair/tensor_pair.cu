// tensor_pair.cu - MobileNets' depthwise 3 x 3 and the 1 x 1 layer after it, f16 and bf16, channels last: both on the
// matrix units, the tensor between them in registers.
//
// Floor: the input and the result once, at the rate of a copy.
// SPDX-License-Identifier: Apache-2.0
#include "common/types.hpp"
#include "mobile/fused.hpp"

namespace polyconv::cuda {
namespace {

using namespace mobile;

struct Pair {
  static constexpr int layers = 2;
  static constexpr const char *name = "cuda-chain/tensor_pair";
  static MobileLayers of(const polyconv_layer *const *l) { return {nullptr, l[0], l[1]}; }
  static MobileKernel find(int32_t type, const Mobile &m) {
    return of_half(type, [&](auto t) { return find_pair<decltype(t)>(m.rows, m.step, m.pairs); });
  }
};

} // namespace

extern const sdk::Kernel kernel_tensor_pair;
const sdk::Kernel kernel_tensor_pair = mobile::mobile_kernel<Pair>("tensor_pair");

} // namespace polyconv::cuda
