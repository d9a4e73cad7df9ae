// driver.cpp - offers, packs and runs separable filters. Compiled for the baseline CPU.
//
// A caller's word is checked when the weights are packed: filters that are no outer products, or under strict only of
// numbers wider than the sums, are filtered directly, and one line of the log says so.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/plane/driver.hpp"

#include "cpu/common/accepts.hpp"
#include "cpu/common/count.hpp"
#include "cpu/kernels.hpp"
#include "cpu/separable/factors.hpp"
#include "cpu/separable/plan.hpp"

#include <polyconv/sdk/backend.hpp>
#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/parallel.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>

namespace polyconv::cpu {
namespace {

using namespace sdk;

// What packed weights begin with; the factors and, dense, the filters follow, in the arithmetic's type.
struct Header {
  int64_t separable; // 0: the factors mean nothing
  int64_t reserved[7];
};

struct Sizes {
  int64_t filters, rows, columns, bytes; // of an element

  explicit Sizes(const polyconv_layer &l)
      : filters(l.weights.size[kK]),
        rows(l.weights.size[kH]),
        columns(l.weights.size[kW]),
        bytes(sum_bytes(l.sum_type)) {}
  int64_t dense_at() const { return round_up(int64_t{sizeof(Header)} + filters * (rows + columns) * bytes, 64); }
  int64_t end() const { return dense_at() + filters * rows * columns * bytes; }
};

// The layer with its filters as pack leaves them.
polyconv_layer with_dense_weights(const polyconv_layer &layer) {
  polyconv_layer l = layer;
  l.weights.type = l.sum_type;
  l.weights.offset = 0;
  const bool shared = layer.weights.stride[kK] == 0; // one filter for all channels, as interleaved pixels want
  l.weights.stride[kW] = 1;
  l.weights.stride[kH] = l.weights.size[kW];
  for (int axis : {kC, kD}) l.weights.stride[axis] = 0;
  l.weights.stride[kK] = shared ? 0 : l.weights.size[kH] * l.weights.size[kW];
  return l;
}

template <class T>
void pack_filters(const polyconv_layer &l, bool near, const void *raw, char *packed) {
  const Sizes sizes(l);
  T *factors = reinterpret_cast<T *>(packed + sizeof(Header));
  T *dense = reinterpret_cast<T *>(packed + sizes.dense_at());
  Header header = {1, {}};
  for (int64_t k = 0; k < sizes.filters; ++k) {
    T *filter = dense + k * sizes.rows * sizes.columns;
    for (int64_t i = 0; i < sizes.rows * sizes.columns; ++i)
      filter[i] = load_as<T>(raw, l.weights.type, at(l.weights, k, 0, 0, i / sizes.columns, i % sizes.columns));
    if (header.separable != 0 &&
        !find_factors<T>({filter, sizes.rows, sizes.columns}, near, factors, factors + sizes.rows))
      header.separable = 0;
    factors += sizes.rows + sizes.columns;
  }
  *reinterpret_cast<Header *>(packed) = header;
  if (header.separable == 0)
    host->log(POLYCONV_LOG_WARNING,
              near ? "separable: the filters are declared outer products and are not; they are applied directly"
                   : "separable: the filters are no outer products of numbers of their type, bit for bit; they are "
                     "applied directly (math fast takes factors up to rounding)");
}

class SeparableInstance final : public Instance {
 public:
  SeparableInstance(const polyconv_request &request, Isa isa)
      : layer_(*request.layers[0]),
        near_(request.policy->math == POLYCONV_MATH_FAST),
        passes_(layer_, *request.policy, isa, true, separable_task_by_isa[isa]),
        direct_(with_dense_weights(layer_), *request.policy, isa, false, image_task_by_isa[isa]) {
    if (std::max(passes_.tasks(), direct_.tasks()) > 1) parallel_ = make_parallel(*request.policy);
  }

  void pack(int, const void *raw, void *packed, void *) override {
    if (layer_.sum_type == POLYCONV_F64)
      pack_filters<double>(layer_, near_, raw, static_cast<char *>(packed));
    else
      pack_filters<float>(layer_, near_, raw, static_cast<char *>(packed));
  }

  void run(const polyconv_arguments &a, void *) const override {
    const char *packed = static_cast<const char *>(a.weights[0]);
    if (reinterpret_cast<const Header *>(packed)->separable != 0)
      passes_.run(a, packed + sizeof(Header), parallel_);
    else
      direct_.run(a, packed + Sizes(layer_).dense_at(), parallel_);
  }

 private:
  const polyconv_layer layer_;
  const bool near_;
  const PlaneFilter passes_, direct_;
  std::unique_ptr<Parallel> parallel_;
};

bool separable_offer(const polyconv_request &request, Isa isa, Offer &offer) {
  if (!takes_strips(request, offer)) return false;
  const polyconv_layer &layer = *request.layers[0];
  if (layer.separable == 0) return offer.reject("takes filters that are declared separable");
  if (!plane_takes(layer, isa, offer)) return false;
  if (layer.stride[1] != 1 || layer.stride[2] != 1 || layer.dilation[1] != 1 || layer.dilation[2] != 1)
    return offer.reject("takes no strides and no dilation");
  if (layer.weights.size[kH] == 1 || layer.weights.size[kW] == 1)
    return offer.reject("takes filters of two dimensions: this one is a single pass");
  const PlanePlan passes = plane_geometry(layer, *request.policy, isa, true);
  if (passes.periodic) return offer.reject("takes interleaved channels with one filter for all");
  if (!takes_no_pooling(layer, offer)) return false;
  const PlanePlan direct = plane_geometry(with_dense_weights(layer), *request.policy, isa, false);
  const int64_t bytes = std::max(passes.tasks * passes.scratch_bytes, direct.tasks * direct.scratch_bytes);
  if (!fits_workspace(request, 1, bytes, offer)) return false;
  const bool near = request.policy->math == POLYCONV_MATH_FAST;
  if (near) offer.math = POLYCONV_MATH_FAST;
  set_weights(offer, Sizes(layer).end(), "cpu_separable_%s%s:1", layer.sum_type == POLYCONV_F64 ? "f64" : "f32",
              near ? "_near" : "");
  offer.estimate_us = passes.estimate_us;
  return true;
}

} // namespace

const sdk::Kernel kernel_separable =
    kernel_by_isa("separable", supports_by_isa<separable_offer>, create_by_isa<SeparableInstance>);

} // namespace polyconv::cpu
