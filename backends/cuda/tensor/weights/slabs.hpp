// slabs.hpp - what the kernels for gradients of weights that copy patches of both tensors (common/patches.hpp) keep of
// a plan: a product, whose tensors, result and pieces a run fills in, and the kernel that computes it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/launch.hpp"
#include "common/instance.hpp"
#include "common/patches.hpp"
#include "common/sums/bias_gradient.hpp"

namespace polyconv::cuda::tensor {

// `PiecesBytes`: of the workspace of a product; the bias's gradient lies behind it.
template <class Product, class Launcher, int64_t (*PiecesBytes)(const Product &)>
class SlabWeights : public CudaInstance {
 protected:
  SlabWeights(const polyconv_request &request, const Product &product, const Launcher &launcher)
      : CudaInstance(request), product_(product), launcher_(launcher) {
    const DeviceScope scope(device_);
    launcher_.prepare();
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const final {
    Product p = product_;
    p.x = make_slab(layer_.input, a.input, p.x.width), p.dy = make_slab(layer_.output, a.output, p.dy.width);
    p.result = a.weights[0];
    p.pieces = static_cast<float *>(a.workspace);
    p.early = early_;
    launcher_.launch(p, stream);
    bias_gradient(layer_, a, static_cast<char *>(a.workspace) + PiecesBytes(p), stream);
  }

  const Product product_;
  const Launcher launcher_;
  const int32_t early_ = begins_early(device_) ? 1 : 0;
};

} // namespace polyconv::cuda::tensor
