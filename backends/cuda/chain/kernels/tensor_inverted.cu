// tensor_inverted.cu - MobileNetV2's inverted residual, f16 and bf16, channels last: 1 x 1, depthwise 3 x 3 and 1 x 1
// on the matrix units, the expanded tensor never beyond a tile of a few of its channels.
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

struct Inverted {
  static constexpr int layers = 3, config_count = kConfigCount;
  static constexpr const MobileConfig *configs = kConfigs;
  static constexpr const char *name = "cuda-chain/tensor_inverted";
  static MobileLayers of(const polyconv_layer *const *l) { return {l[0], l[1], l[2]}; }
  static MobileKernel find(int32_t type, const Mobile &m) {
    return (type == POLYCONV_F16 ? find_inverted_f16 : find_inverted_bf16)(m.rows, m.step, m.pairs);
  }
};

} // namespace

extern const sdk::Kernel kernel_tensor_inverted;
const sdk::Kernel kernel_tensor_inverted = {"tensor_inverted",      0, kNames, kConfigCount, mobile_supports<Inverted>,
                                            mobile_create<Inverted>};

} // namespace polyconv::cuda
