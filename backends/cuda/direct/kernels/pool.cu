// pool.cu - maximum and average pooling of a stored tensor, then quantisation: the step after a kernel that does not
// pool itself. f32, f64 or s32 in, any result; argmax saved on request. One thread a result.
//
// Floor: one read of the input and one write of the result. Overlapping windows read an element again, mostly from L1.
// SPDX-License-Identifier: Apache-2.0
#include "blocks.hpp"
#include "common/epilogue.cuh"

namespace polyconv::cuda {
namespace {

using direct::kMaxThreads;

template <class Stored, class T, class Index>
__global__ void __launch_bounds__(kMaxThreads, 1) pool(const Conv<Index> p, const Stored *x, void *y, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    pool_and_put<T>(p, y, p.result_place(i), p.input,
                    [&](const Place<Index> &inner) { return static_cast<T>(x[p.input.at(inner)]); });
}

// ---------------------------------------------------------------- plan and run

class Pooling final : public CudaInstance {
 public:
  Pooling(const polyconv_request &request, int threads)
      : CudaInstance(request), threads_(threads), small_(fits_int32(layer_)) {}

 private:
  template <class Stored, class T>
  void launch_as(const polyconv_arguments &a, cudaStream_t stream) const {
    const int64_t count = sdk::elements(layer_.result);
    const unsigned blocks = blocks_for(count, threads_);
    const auto *x = static_cast<const Stored *>(a.input);
    if (small_)
      pool<Stored, T, int32_t><<<blocks, threads_, 0, stream>>>(Conv<int32_t>(layer_, a), x, a.output, count);
    else
      pool<Stored, T, int64_t><<<blocks, threads_, 0, stream>>>(Conv<int64_t>(layer_, a), x, a.output, count);
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    switch (layer_.input.type) {
      case POLYCONV_F64: launch_as<double, double>(a, stream); break;
      case POLYCONV_S32: launch_as<int32_t, float>(a, stream); break;
      default: launch_as<float, float>(a, stream); break;
    }
    check_launch("cuda-direct/pool");
  }

  const int threads_;
  const bool small_;
};

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_POOL) return offer.reject("only pools");
  const polyconv_layer &l = *request.layers[0];
  const int32_t type = l.input.type;
  if (type != POLYCONV_F32 && type != POLYCONV_F64 && type != POLYCONV_S32)
    return offer.reject("pools f32, f64 or s32 values");
  direct::choose_block(config, sdk::elements(l.result), offer);
  const double bytes = 4.0 * static_cast<double>(sdk::elements(l.input) + sdk::elements(l.result));
  offer.estimate_us = 3 + bytes / 2.5e6;
  return true;
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return std::make_unique<Pooling>(request, direct::kBlockSizes[config]);
}

} // namespace

extern const sdk::Kernel kernel_pool;
const sdk::Kernel kernel_pool = {"pool", 0, direct::kBlockNames, direct::kBlockCount, supports, create};

} // namespace polyconv::cuda
