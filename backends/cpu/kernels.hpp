// kernels.hpp - the kernels of kernels.inc and the probe, as a backend wants them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/kernel.hpp>

#include <memory>
#include <vector>

#include "cpu/isa.hpp"

namespace polyconv::cpu {

#define POLYCONV_KERNEL(name) extern const sdk::Kernel kernel_##name;
#define POLYCONV_ADJOINT(name)
#include "cpu/kernels.inc"
#undef POLYCONV_KERNEL
#undef POLYCONV_ADJOINT

std::vector<const sdk::Kernel *> kernels();

// What most kernels have for `supports` and `create`: configs are the instruction sets.
template <auto kOffer>
bool supports_by_isa(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  Isa isa;
  return choose_isa(config, offer, isa) && kOffer(request, isa, offer);
}
template <class Made>
std::unique_ptr<sdk::Instance> create_by_isa(const polyconv_request &request, int32_t config) {
  return std::make_unique<Made>(request, static_cast<Isa>(config));
}

// A kernel of those configs. `takes`: POLYCONV_TRAIT_*; `flags`: POLYCONV_KERNEL_*.
constexpr sdk::Kernel kernel_by_isa(const char *name, decltype(sdk::Kernel::supports) supports,
                                    decltype(sdk::Kernel::create) create, uint64_t takes = sdk::kActivationTraits,
                                    uint32_t flags = 0) {
  return {name, flags, isa_names, kIsaCount, supports, create, takes};
}

// The backends' probe: always available, with the instruction set as a note (isa.cpp).
polyconv_status probe(char *reason, size_t size);

} // namespace polyconv::cpu
