// convert.cpp - copies a tensor into other strides. Floor: one read and one write.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/kernel.hpp>
#include <polyconv/sdk/tensor.hpp>

#include "kernels/for_each.hpp"

namespace polyconv::reference {
namespace {

// Bits go across unchanged, so that NaN payloads stay what they are.
template <class Bits>
void copy(const polyconv_tensor &from, const void *source, const polyconv_tensor &to, void *destination,
          const sdk::Parallel &parallel) {
  for_each_row(parallel, from, [&](const Place &place) {
    const Bits *read = static_cast<const Bits *>(source) + at(from, place);
    Bits *write = static_cast<Bits *>(destination) + at(to, place);
    for (int64_t w = 0; w < from.size[4]; ++w) write[w * to.stride[4]] = read[w * from.stride[4]];
  });
}

class ConvertInstance final : public sdk::Instance {
 public:
  explicit ConvertInstance(const polyconv_request &request)
      : layer_(*request.layers[0]), parallel_(sdk::make_parallel(*request.policy)) {}

  void run(const polyconv_arguments &a, void *) const override {
    const polyconv_tensor &from = layer_.input, &to = layer_.result;
    switch (from.type) {
      case POLYCONV_S8:
      case POLYCONV_U8: return copy<uint8_t>(from, a.input, to, a.output, *parallel_);
      case POLYCONV_F16:
      case POLYCONV_BF16:
      case POLYCONV_U16: return copy<uint16_t>(from, a.input, to, a.output, *parallel_);
      case POLYCONV_F32:
      case POLYCONV_S32: return copy<uint32_t>(from, a.input, to, a.output, *parallel_);
      default: return copy<uint64_t>(from, a.input, to, a.output, *parallel_);
    }
  }

 private:
  const polyconv_layer layer_;
  const std::unique_ptr<sdk::Parallel> parallel_;
};

bool supports(const polyconv_request &request, int32_t, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVERT) return offer.reject("only copies a tensor into other strides");
  const polyconv_layer &l = *request.layers[0];
  if (l.input.type != l.result.type) return offer.reject("keeps the type of a tensor");
  offer.estimate_us = 20 + static_cast<double>(sdk::elements(l.input)) * 2e-3 / request.policy->threads;
  return true;
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t) {
  return std::make_unique<ConvertInstance>(request);
}

const char *const configs[] = {"plain"};

} // namespace

extern const sdk::Kernel kernel_convert;
const sdk::Kernel kernel_convert = {"convert", POLYCONV_KERNEL_GENERIC, configs, 1, supports,
                                    create,    POLYCONV_TRAITS_ALL};

} // namespace polyconv::reference
