// tensor_pair.cu - MobileNets' depthwise 3 x 3 and the 1 x 1 layer after it, f16 and bf16, channels last: both on the
// matrix units, the tensor between them in registers.
//
// Floor: the input and the result once, at the rate of a copy.
// SPDX-License-Identifier: Apache-2.0
#include "tensor_fused.hpp"

namespace polyconv::cuda {
namespace {

using namespace mobile;

constexpr MobileConfig kConfigs[] = {{4, 1}, {4, 2}, {2, 1}, {2, 2}, {2, 4}, {1, 1}, {1, 2}};
constexpr const char *kNames[] = {"r4_s1", "r4_s2", "r2_s1", "r2_s2", "r2_s4", "r1_s1", "r1_s2"};
constexpr int kConfigCount = 7;

struct Pair {
  static constexpr int layers = 2, config_count = kConfigCount;
  static constexpr const MobileConfig *configs = kConfigs;
  static constexpr const char *name = "cuda-chain/tensor_pair";
  static MobileLayers of(const polyconv_layer *const *l) { return {nullptr, l[0], l[1]}; }
  static MobileKernel find(int32_t type, const Mobile &m) {
    return (type == POLYCONV_F16 ? find_pair_f16 : find_pair_bf16)(m.rows, m.step, m.pairs);
  }
};

} // namespace

extern const sdk::Kernel kernel_tensor_pair;
const sdk::Kernel kernel_tensor_pair = {"tensor_pair",      0, kNames, kConfigCount, mobile_supports<Pair>,
                                        mobile_create<Pair>};

} // namespace polyconv::cuda
