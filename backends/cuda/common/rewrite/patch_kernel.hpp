// patch_kernel.hpp - kernels for layers whose windows do not overlap (patch.hpp), made of kernels that multiply:
// whichever of a list takes the layer of one tap. A config is one of theirs, with their name before its own.
//
//   extern const sdk::Kernel kernel_wgmma, kernel_mma, kernel_patch;
//   const sdk::Kernel kernel_patch = patch_of<POLYCONV_FORWARD, kernel_wgmma, kernel_mma>("patch");
//
// The list has kernels that go forward, for BACKWARD_DATA too; for BACKWARD_WEIGHTS kernels of that direction.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/kernel.hpp>

#include <string>
#include <vector>

namespace polyconv::cuda {

// The kernels of a list.
struct PatchProducts {
  const sdk::Kernel *const *kernels;
  int32_t count;
};

bool patch_supports(const PatchProducts &products, int32_t direction, const polyconv_request &request, int32_t config,
                    sdk::Offer &offer);
std::unique_ptr<sdk::Instance> patch_create(const PatchProducts &products, const polyconv_request &request,
                                            int32_t config);

// The names of all configs of all of them.
std::vector<const char *> patch_configs(const PatchProducts &products);

// Not of kernels that bind pointers.
template <int32_t Direction, const sdk::Kernel &...Products>
sdk::Kernel patch_of(const char *name) {
  static constexpr const sdk::Kernel *kList[] = {&Products...};
  static constexpr PatchProducts kProducts = {kList, sizeof...(Products)};
  static const std::vector<const char *> configs = patch_configs(kProducts);
  return {name,
          (Products.flags | ...),
          configs.data(),
          static_cast<int32_t>(configs.size()),
          [](const polyconv_request &request, int32_t config, sdk::Offer &offer) {
            return patch_supports(kProducts, Direction, request, config, offer);
          },
          [](const polyconv_request &request, int32_t config) { return patch_create(kProducts, request, config); },
          (Products.takes & ...) & sdk::kActivationTraits};
}

} // namespace polyconv::cuda
