// convolve.cpp - the oracle: every convolution in every direction, type, layout and padding, summed in double (f64:
// compensated; quantised: integers), with the whole epilogue, and pooling on values that wait in the workspace.
// Floor: none worth naming. It reads what it needs again for every few channels; it is here to be right.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/kernel.hpp>

#include "kernels/backward_data.hpp"
#include "kernels/backward_weights.hpp"
#include "kernels/for_each.hpp"
#include "kernels/forward.hpp"
#include "kernels/pooling.hpp"

namespace polyconv::reference {
namespace {

class ConvolveInstance final : public sdk::Instance {
 public:
  explicit ConvolveInstance(const polyconv_request &request)
      : layer_(*request.layers[0]), parallel_(sdk::make_parallel(*request.policy)) {}

  void run(const polyconv_arguments &a, void *) const override {
    switch (layer_.sum_type) {
      case POLYCONV_F64: run_as<double, Compensated>(a); break;
      case POLYCONV_S32: run_as<int32_t, uint32_t>(a); break;
      default: run_as<double, double>(a); break;
    }
    if (!sdk::has_pooling(layer_)) return;
    void *result = layer_.direction == POLYCONV_FORWARD ? a.output : a.input;
    pool(layer_, waiting_tensor(sdk::written(layer_)), a.workspace, result, a.saved[0], *parallel_);
  }

 private:
  template <class Value, class Sum>
  void run_as(const polyconv_arguments &a) const {
    if (layer_.direction == POLYCONV_FORWARD) return run_tasks(Forward<Value, Sum>(layer_, a));
    if (layer_.direction == POLYCONV_BACKWARD_DATA) return run_tasks(BackwardData<Value, Sum>(layer_, a));
    if constexpr (std::is_same_v<Value, double>) run_tasks(BackwardWeights<Sum>(layer_, a)); // float rows only
  }

  template <class Direction>
  void run_tasks(const Direction &direction) const {
    for_each(*parallel_, direction.tasks(), [&](int64_t i) { direction.task(i); });
  }

  const polyconv_layer layer_;
  const std::unique_ptr<sdk::Parallel> parallel_;
};

// Nanoseconds of one thread for one product, as measured on a layer of 64 channels.
double nanoseconds(const polyconv_layer &l) {
  const double product = l.sum_type == POLYCONV_F64 ? 4.0 : 0.8;
  return l.direction == POLYCONV_BACKWARD_WEIGHTS ? 2 * product : product;
}

bool supports(const polyconv_request &request, int32_t, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (sdk::has_pooling(l)) {
    offer.workspace_bytes = sdk::elements(sdk::written(l)) * static_cast<int64_t>(sizeof(double));
    if (offer.workspace_bytes > request.policy->workspace_limit) {
      offer.rejects_pooling = 1;
      return offer.reject("needs %lld bytes of workspace for pooling", static_cast<long long>(offer.workspace_bytes));
    }
  }
  const double products = sdk::flops(l) / 2;
  offer.estimate_us = 20 + products * nanoseconds(l) * 1e-3 / request.policy->threads;
  return true;
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t) {
  return std::make_unique<ConvolveInstance>(request);
}

const char *const configs[] = {"plain"};

} // namespace

extern const sdk::Kernel kernel_convolve;
const sdk::Kernel kernel_convolve = {"convolve", POLYCONV_KERNEL_GENERIC, configs, 1, supports,
                                     create,     POLYCONV_TRAITS_ALL};

} // namespace polyconv::reference
