// vector.cu - forward, f16 and bf16, with mma.sync: layers whose product has few rows (common/vector/vector.hpp), a
// matrix times a vector or some. Configs are filters x rows of a block.
//
// Floor: one read of the weights.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.hpp"
#include "common/types.hpp"
#include "common/vector/vector.cuh"
#include "common/vector/vector_kernel.hpp"
#include "vector/layout.cuh"
#include "vector/multiply.hpp"

namespace polyconv::cuda {
namespace {

constexpr const char *kNames[] = {"16x8", "16x32", "32x64"};

struct Side {
  static constexpr VectorShape shapes[] = {{16, 8}, {16, 32}, {32, 64}};
  static constexpr double products = 700;
  static constexpr const char *format = "cuda_tensor_vector";

  static bool takes_types(const polyconv_layer &l, sdk::Offer &offer) {
    const int32_t type = l.input.type;
    return (is_half(type) && l.weights.type == type) || offer.reject("takes input and weights of type f16 or bf16");
  }
  static VectorLauncher launcher(int32_t type, int config, bool vectors) {
    return of_half(type, [&](auto t) { return tensor::vector_launcher_of<decltype(t)>(shapes[config], vectors); });
  }
  static void pack(const polyconv_layer &l, const VectorLayer &v, const void *raw, void *packed, cudaStream_t stream) {
    launch_pack_vector<tensor::VectorOperand, uint16_t>(l, v, raw, packed, stream);
  }
};
static_assert(sizeof kNames / sizeof *kNames == sizeof Side::shapes / sizeof *Side::shapes, "every shape has a name");

} // namespace

POLYCONV_DEFINE_KERNEL(vector, kNames, vector_supports<Side>, instance_of<VectorInstance<Side>>, 0,
                       sdk::kActivationTraits);

} // namespace polyconv::cuda
