// products.cpp - see products.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/products.hpp"

#include <cinttypes>
#include <deque>
#include <string>

#include "common/numbers.hpp"

namespace polyconv::cuda {

std::vector<const char *> products_configs(const Products &products) {
  static std::deque<std::string> names; // for ever: kernels' tables point at them
  std::vector<const char *> configs;
  for (int32_t i = 0; i < products.count; ++i)
    for (int32_t config = 0; config < products.kernels[i]->config_count; ++config) {
      names.push_back(products.kernels[i]->name + std::string("_") + products.kernels[i]->configs[config]);
      configs.push_back(names.back().c_str());
    }
  return configs;
}

InnerRequest::InnerRequest(const polyconv_request &request, const polyconv_layer &layer, int64_t workspace)
    : layer_(&layer), policy_(sdk::with_packed_weights(*request.policy)), request_(request) {
  if (policy_.workspace_limit < INT64_MAX) policy_.workspace_limit -= workspace;
  request_.layers = &layer_, request_.policy = &policy_;
}

bool add_workspace(const polyconv_request &request, int64_t bytes, const char *what, sdk::Offer &offer) {
  offer.workspace_bytes = bytes + aligned_bytes(offer.workspace_bytes);
  return offer.workspace_bytes <= request.policy->workspace_limit ||
         offer.reject("needs a workspace of %" PRId64 " bytes, with copies of %s", offer.workspace_bytes, what);
}

namespace {

// A config of all by the product that has it.
struct Which {
  int32_t product, config;
};
Which which_of(const Products &products, int32_t config) {
  Which which = {0, config};
  while (which.config >= products.kernels[which.product]->config_count)
    which.config -= products.kernels[which.product++]->config_count;
  return which;
}

} // namespace

bool products_support(const Rewrite &rewrite, const Products &products, int32_t direction,
                      const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!rewrite.takes(request, direction, offer)) return false;
  if (config >= 0) {
    const Which which = which_of(products, config);
    if (!rewrite.asks(*products.kernels[which.product], request, which.config, offer)) return false;
    offer.config = config;
    return true;
  }
  sdk::Offer best = {}, refused = {};
  int32_t before = 0; // configs of the products ahead
  for (int32_t i = 0; i < products.count; before += products.kernels[i++]->config_count) {
    sdk::Offer one = offer;
    if (rewrite.asks(*products.kernels[i], request, -1, one)) {
      if (best.estimate_us <= 0 || one.estimate_us < best.estimate_us) best = one, best.config += before;
    } else if (refused.struct_size == 0 || (refused.wants_layout == 0 && one.wants_layout != 0)) {
      refused = one; // a reason, should none take it: that of the first, or of one that would after a conversion
    }
  }
  offer = best.estimate_us > 0 ? best : refused;
  return best.estimate_us > 0;
}

std::unique_ptr<sdk::Instance> products_create(const Rewrite &rewrite, const Products &products,
                                               const polyconv_request &request, int32_t config) {
  const Which which = which_of(products, config);
  return rewrite.create(*products.kernels[which.product], request, which.config);
}

} // namespace polyconv::cuda
