// kernel.hpp - the definition with which the entry file of a kernel ends, in namespace polyconv::cuda:
//
//   POLYCONV_DEFINE_KERNEL(tiles, kNames, supports, instance_of<Tiles, kConfigs>);
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/kernel.hpp>

#include <type_traits>

namespace polyconv::cuda {

// What makes the instances of a kernel: Made(request, Table[config]) where there is a table of configs; else
// Made(request, config), or Made(request) where that is all that it takes.
template <class Made, const auto &...Table>
std::unique_ptr<sdk::Instance> instance_of(const polyconv_request &request, [[maybe_unused]] int32_t config) {
  if constexpr (sizeof...(Table) == 0 && !std::is_constructible_v<Made, const polyconv_request &, int32_t>)
    return std::make_unique<Made>(request);
  else if constexpr (sizeof...(Table) == 0)
    return std::make_unique<Made>(request, config);
  else
    return std::make_unique<Made>(request, Table[config]...);
}

// `configs`: their names. `flags`: POLYCONV_KERNEL_*. `takes`: POLYCONV_TRAIT_*.
template <int32_t Count>
constexpr sdk::Kernel kernel_of(const char *name, const char *const (&configs)[Count],
                                decltype(sdk::Kernel::supports) supports, decltype(sdk::Kernel::create) create,
                                uint32_t flags = 0, uint64_t takes = 0) {
  return {name, flags, configs, Count, supports, create, takes};
}

} // namespace polyconv::cuda

// kernel_<name>, which kernels.inc lists; the rest as kernel_of has it.
#define POLYCONV_DEFINE_KERNEL(name, ...) \
  extern const sdk::Kernel kernel_##name; \
  const sdk::Kernel kernel_##name = kernel_of(#name, __VA_ARGS__)
