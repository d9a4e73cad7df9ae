// vector_kernel.hpp - a forward kernel for products of few rows (vector.hpp), but for its product: what it takes, which
// config, the instance. A side says with what:
//
//   struct Side {
//     static constexpr VectorShape shapes[];                    // one a config
//     static constexpr double products;                         // multiply-adds of a multiprocessor in a clock
//     static bool takes_types(const polyconv_layer &, sdk::Offer &);
//     static VectorLauncher launcher(int32_t type, int config, bool vectors); // vectors: x in 16 bytes at a time
//     static void pack(const polyconv_layer &, const VectorLayer &, const void *raw, void *packed, cudaStream_t);
//     static constexpr const char *format;
//   };
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/cheapest.hpp"
#include "common/device/launch.hpp"
#include "common/vector/vector.hpp"

namespace polyconv::cuda {

template <class Side>
class VectorInstance final : public CudaInstance {
 public:
  VectorInstance(const polyconv_request &request, int config) : CudaInstance(request), shape_(Side::shapes[config]) {
    make_vector(layer_, &vector_, nullptr);
    blocks_ = static_cast<unsigned>(vector_blocks(vector_, shape_));
    vectors_ = Side::launcher(layer_.input.type, config, reads_vectors(layer_, vector_));
    elements_ = Side::launcher(layer_.input.type, config, false);
  }

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override {
    Side::pack(layer_, vector_, raw, packed, stream);
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    const VectorProduct p(layer_, a, vector_, shape_);
    (aligned(p.x, 16) ? vectors_ : elements_)(p, blocks_, early_, stream);
  }

  const VectorShape shape_;
  VectorLayer vector_;
  unsigned blocks_;
  VectorLauncher vectors_, elements_;
  const bool early_ = begins_early(device_);
};

template <class Side>
bool vector_supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_FORWARD, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!Side::takes_types(l, offer)) return false;
  if (!takes_no_pooling(l, offer)) return false;
  VectorLayer v;
  if (!make_vector(l, &v, &offer)) return false;
  constexpr int kConfigs = sizeof Side::shapes / sizeof *Side::shapes;
  if (!(vector_blocks(v, {kVectorFilters, 1}) < 1 << 30))
    return offer.reject("takes less than 2^30 rows of 16 filters");
  offer_cheapest(kConfigs, config, offer, [&](int32_t c) { return vector_us(l, v, Side::shapes[c], Side::products); });
  const VectorShape &shape = Side::shapes[offer.config];
  char format[POLYCONV_FORMAT_SIZE];
  std::snprintf(format, sizeof format, "%s_%s%s:1", Side::format, v.taps > 1 ? "taps_" : "", v.order);
  offer.set_weights(0, format, v.packed_elements() * sdk::type_bytes(l.weights.type));
  offer.threads = v.warps() * 32, offer.blocks = static_cast<int64_t>(vector_blocks(v, shape));
  offer.say("%d filters x %d rows a block, whose %d warps share the depth of %d", shape.filters, shape.rows, v.warps(),
            v.depth);
  return true;
}

} // namespace polyconv::cuda
