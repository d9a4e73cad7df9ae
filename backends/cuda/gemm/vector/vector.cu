// vector.cu - forward, strict f32: layers whose product has few rows (common/vector/vector.hpp), a matrix times a
// vector or some. Configs are filters x rows of a block.
//
// Floor: one read of the weights; with many rows 2 rows K C at the FMA rate.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.hpp"
#include "common/vector/vector_kernel.hpp"
#include "vector/multiply.hpp"

namespace polyconv::cuda {
namespace {

constexpr const char *kNames[] = {"16x1", "16x4", "16x16"};

struct Side {
  static constexpr VectorShape shapes[] = {{16, 1}, {16, 4}, {16, 16}};
  static constexpr double products = 64;
  static constexpr const char *format = "cuda_gemm_vector";

  static bool takes_types(const polyconv_layer &l, sdk::Offer &offer) {
    return (l.input.type == POLYCONV_F32 && l.weights.type == POLYCONV_F32) ||
           offer.reject("takes input and weights of type f32");
  }
  static VectorLauncher launcher(int32_t, int config, bool vectors) {
    return gemm::vector_f32(shapes[config].rows, vectors);
  }
  static void pack(const polyconv_layer &l, const VectorLayer &v, const void *raw, void *packed, cudaStream_t stream) {
    gemm::pack_vector_f32(l, v, raw, packed, stream);
  }
};
static_assert(sizeof kNames / sizeof *kNames == sizeof Side::shapes / sizeof *Side::shapes, "every shape has a name");

} // namespace

POLYCONV_DEFINE_KERNEL(vector, kNames, vector_supports<Side>, instance_of<VectorInstance<Side>>, 0,
                       sdk::kActivationTraits);

} // namespace polyconv::cuda
