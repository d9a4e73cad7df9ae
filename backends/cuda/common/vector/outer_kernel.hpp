// outer_kernel.hpp - a kernel for gradients of weights over few rows (outer.hpp), but for its product. A side says with
// what:
//
//   struct Side {
//     static constexpr OuterShape shapes[];                                 // one a config
//     static bool takes_types(const polyconv_layer &, sdk::Offer &);
//     static double us(const OuterProduct &, int config); // without launch and memory
//     static OuterLauncher launcher(const OuterProduct &, int32_t type, int config); // for the current device
//   };
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/cheapest.hpp"
#include "common/device/launch.hpp"
#include "common/sums/bias_gradient.hpp"
#include "common/vector/outer.hpp"

namespace polyconv::cuda {

template <class Side>
class OuterInstance final : public CudaInstance {
 public:
  OuterInstance(const polyconv_request &request, int config)
      : CudaInstance(request),
        product_(make(layer_, config)),
        launcher_(launcher_on(device_, product_, layer_, config)) {}

  static OuterProduct make(const polyconv_layer &l, int config) {
    VectorLayer v;
    make_vector(l, &v, nullptr);
    return make_outer(l, v, Side::shapes[config]);
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    OuterProduct p = product_;
    set_pointers(layer_, a, &p);
    launcher_.launch(p, early_, launcher_.shared_bytes, stream);
    bias_gradient(layer_, a, a.workspace, stream);
  }

  static OuterLauncher launcher_on(int device, const OuterProduct &p, const polyconv_layer &l, int config) {
    const DeviceScope scope(device);
    return Side::launcher(p, l.input.type, config);
  }

  const OuterProduct product_;
  const OuterLauncher launcher_;
  const bool early_ = begins_early(device_);
};

template <class Side>
bool outer_supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_BACKWARD_WEIGHTS, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!Side::takes_types(l, offer)) return false;
  VectorLayer v;
  if (!make_vector(l, &v, &offer)) return false;
  if (v.places > 1 || v.taps > 1) return offer.reject("takes windows without padding");
  if (v.rows > kMostOuterRows) return offer.reject("takes batches of up to 65536 outputs");
  double span = 0; // of the gradient
  for (int axis = 0; axis < 5; ++axis) span += real(l.weights.size[axis]) * std::fabs(real(l.weights.stride[axis]));
  if (!(span < 1 << 30)) return offer.reject("takes weights of less than 2^30 elements, gaps included");
  constexpr int kConfigs = sizeof Side::shapes / sizeof *Side::shapes;
  const double size = real(sdk::type_bytes(l.input.type)), weights = real(sdk::elements(l.weights));
  offer_cheapest(kConfigs, config, offer, [&](int32_t c) {
    const OuterProduct p = make_outer(l, v, Side::shapes[c]);
    const double scattered = p.depth_step == 1 ? 1 : 8;
    const double bytes = size * (real(v.rows) * (v.depth + v.group_filters) * v.groups + weights * scattered);
    return 1.2 + std::max(Side::us(p, c), bytes / 3.3e6) + bias_gradient_us(l);
  });
  const OuterShape &shape = Side::shapes[offer.config];
  offer.blocks = static_cast<int64_t>(outer_tiles(make_outer(l, v, shape)));
  offer.say("tiles of %d filters x %d of the depth, %d rows in order", shape.filters, shape.depth, v.rows);
  offer.workspace_bytes = bias_gradient_bytes(l);
  return takes_workspace(request, offer, "the gradient of the bias");
}

} // namespace polyconv::cuda
