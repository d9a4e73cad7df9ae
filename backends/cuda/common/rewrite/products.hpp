// products.hpp - kernels that are another layer's products: a layer is written as one that a kernel of a list
// multiplies, with copies around it. A config is one of theirs, with their name before its own.
//
//   extern const Rewrite kPatches; // patch_kernel.cpp
//   const sdk::Kernel kernel_patch = rewritten_of<kPatches, POLYCONV_FORWARD, kernel_wgmma, kernel_mma>("patch");
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/kernel.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace polyconv::cuda {

// The kernels of a list.
struct Products {
  const sdk::Kernel *const *kernels;
  int32_t count;
};

// One way to write layers as others.
struct Rewrite {
  // Whether it takes a layer of a direction at all; else rejects in words.
  bool (*takes)(const polyconv_request &request, int32_t direction, sdk::Offer &offer);
  // Likewise by a product in one of its configs, -1 for the one that it chooses; offers all that the run needs.
  bool (*asks)(const sdk::Kernel &product, const polyconv_request &request, int32_t config, sdk::Offer &offer);
  std::unique_ptr<sdk::Instance> (*create)(const sdk::Kernel &product, const polyconv_request &request, int32_t config);
};

// The request for the layer that a product gets, with what `workspace` bytes of copies leave of the limit.
class InnerRequest {
 public:
  InnerRequest(const polyconv_request &request, const polyconv_layer &layer, int64_t workspace);
  InnerRequest(const InnerRequest &) = delete;
  const polyconv_request &get() const { return request_; }

 private:
  const polyconv_layer *layer_;
  polyconv_policy policy_;
  polyconv_request request_;
};

// Adds the workspace of copies to what a product has offered to need; rejects where that is more than the limit.
bool add_workspace(const polyconv_request &request, int64_t bytes, const char *what, sdk::Offer &offer);

bool products_support(const Rewrite &rewrite, const Products &products, int32_t direction,
                      const polyconv_request &request, int32_t config, sdk::Offer &offer);
std::unique_ptr<sdk::Instance> products_create(const Rewrite &rewrite, const Products &products,
                                               const polyconv_request &request, int32_t config);

// The names of all configs of all of them.
std::vector<const char *> products_configs(const Products &products);

// Not of kernels that bind pointers.
template <const Rewrite &Way, int32_t Direction, const sdk::Kernel &...List>
sdk::Kernel rewritten_of(const char *name) {
  static constexpr const sdk::Kernel *kList[] = {&List...};
  static constexpr Products kProducts = {kList, sizeof...(List)};
  static const std::vector<const char *> configs = products_configs(kProducts);
  return {
      name,
      (List.flags | ...),
      configs.data(),
      static_cast<int32_t>(configs.size()),
      [](const polyconv_request &request, int32_t config, sdk::Offer &offer) {
        return products_support(Way, kProducts, Direction, request, config, offer);
      },
      [](const polyconv_request &request, int32_t config) { return products_create(Way, kProducts, request, config); },
      (List.takes & ...) & sdk::kActivationTraits};
}

} // namespace polyconv::cuda
