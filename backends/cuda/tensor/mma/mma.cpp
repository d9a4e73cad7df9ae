// mma.cpp - forward, f16 and bf16 with f32 sums: the general implicit matrix product on the matrix units by mma.sync,
// for every chip from 8.0 on. The matrix of im2col exists only as tiles in shared memory, copied there in vectors or
// words of channels, or through registers where those are not whole; see product.cuh. Configs are tiles, pixels x
// channels, some with k split over blocks ("k4"), for problems of few tiles: the partial sums of an output lie in the
// workspace and are added in the order of k.
//
// Floor: 2 N K P Q C R S at the rate of mma.sync.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.hpp"
#include "mma/product.hpp"

namespace polyconv::cuda {
namespace {

using namespace tensor;

Products products_of(const polyconv_request &request) {
  return request.layers[0]->input.type == POLYCONV_BF16 ? Products::kBfloat : Products::kHalf;
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  return mma_supports(request, products_of(request), config, offer);
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return mma_create(request, products_of(request), config);
}

} // namespace

POLYCONV_DEFINE_KERNEL(mma, kMmaConfigs, supports, create);

} // namespace polyconv::cuda
