// pool.cpp - maximum and average pooling, one result at a time in the definition's own words; then quantisation.
// Floor: one read of the input; this reads an element once for every window that holds it.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/kernel.hpp>
#include <polyconv/sdk/pooling.hpp>
#include <polyconv/sdk/tensor.hpp>

#include "kernels/for_each.hpp"
#include "kernels/pooling.hpp"

namespace polyconv::reference {
namespace {

using sdk::PoolSpan;

// Calls visit(value, index in the window) for every element of the result's window that lies inside the source.
template <class T, class Visit>
void for_window(const polyconv_layer &l, const polyconv_tensor &source, const void *values, const Place &p,
                const Visit &visit) {
  const polyconv_pool &pool = l.epilogue.pool;
  const PoolSpan d = sdk::pool_span(l, 0, p.d, source.size[sdk::kD]);
  const PoolSpan h = sdk::pool_span(l, 1, p.h, source.size[sdk::kH]);
  const PoolSpan w = sdk::pool_span(l, 2, p.w, source.size[sdk::kW]);
  for (int64_t z = d.begin, i = d.first; z < d.end; z += d.step, ++i)
    for (int64_t y = h.begin, j = h.first; y < h.end; y += h.step, ++j)
      for (int64_t x = w.begin, k = w.first; x < w.end; x += w.step, ++k) {
        const T value = sdk::load_as<T>(values, source.type, sdk::at(source, p.n, p.channel, z, y, x));
        visit(value, (i * pool.window[1] + j) * pool.window[2] + k);
      }
}

template <class T>
T pooled(const polyconv_layer &l, const polyconv_tensor &source, const void *values, const Place &place,
         int64_t *argmax) {
  T result = 0;
  *argmax = 0;
  if (l.epilogue.pool.kind == POLYCONV_POOL_MAX) {
    bool any = false;
    for_window<T>(l, source, values, place, [&](T value, int64_t index) {
      if (any && !sdk::pool_better(value, result)) return;
      any = true;
      result = value;
      *argmax = index;
    });
    return result;
  }
  for_window<T>(l, source, values, place, [&](T value, int64_t) { result += value; });
  int64_t divisor = 1;
  const int64_t at[3] = {place.d, place.h, place.w};
  for (int axis = 0; axis < 3; ++axis) divisor *= sdk::pool_divisor(l, axis, at[axis], source.size[sdk::kD + axis]);
  return result / static_cast<T>(divisor);
}

template <class T>
void pool_as(const polyconv_layer &l, const polyconv_tensor &source, const void *values, void *result, void *argmax,
             const sdk::Parallel &parallel) {
  const polyconv_tensor &r = l.result;
  for_each_row(parallel, r, [&](Place place) {
    for (place.w = 0; place.w < r.size[4]; ++place.w) {
      int64_t index = 0;
      const T v = pooled<T>(l, source, values, place, &index);
      sdk::store_as(result, r.type, at(r, place), sdk::quantise(v, l.epilogue, r.type));
      if (l.save == POLYCONV_SAVE_ARGMAX)
        static_cast<int32_t *>(argmax)[at(l.saved, place)] = static_cast<int32_t>(index);
    }
  });
}

class PoolInstance final : public sdk::Instance {
 public:
  explicit PoolInstance(const polyconv_request &request)
      : layer_(*request.layers[0]), parallel_(sdk::make_parallel(*request.policy)) {}

  void run(const polyconv_arguments &a, void *) const override {
    pool(layer_, layer_.input, a.input, a.output, a.saved[0], *parallel_);
  }

 private:
  const polyconv_layer layer_;
  const std::unique_ptr<sdk::Parallel> parallel_;
};

bool supports(const polyconv_request &request, int32_t, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_POOL) return offer.reject("only pools");
  const polyconv_layer &l = *request.layers[0];
  const polyconv_pool &p = l.epilogue.pool;
  const double reads =
      static_cast<double>(sdk::elements(l.result)) * static_cast<double>(p.window[0] * p.window[1] * p.window[2]);
  offer.estimate_us = 20 + reads * 3e-3 / request.policy->threads;
  return true;
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t) {
  return std::make_unique<PoolInstance>(request);
}

const char *const configs[] = {"plain"};

} // namespace

void pool(const polyconv_layer &l, const polyconv_tensor &source, const void *values, void *result, void *argmax,
          const sdk::Parallel &parallel) {
  // The quantised rows are f32 after their sums; the others are free to be wider.
  if (l.sum_type == POLYCONV_S32)
    pool_as<float>(l, source, values, result, argmax, parallel);
  else
    pool_as<double>(l, source, values, result, argmax, parallel);
}

extern const sdk::Kernel kernel_pool;
const sdk::Kernel kernel_pool = {"pool", POLYCONV_KERNEL_GENERIC, configs, 1, supports, create, POLYCONV_TRAITS_ALL};

} // namespace polyconv::reference
