// kernels.hpp - the kernels of kernels.inc and the probe, as a backend wants them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/kernel.hpp>

#include <memory>
#include <vector>

#include "cpu/isa.hpp"

namespace polyconv::cpu {

#define POLYCONV_KERNEL(name) extern const sdk::Kernel kernel_##name;
#include "cpu/kernels.inc"
#undef POLYCONV_KERNEL

std::vector<const sdk::Kernel *> kernels();

// What most kernels have for `supports` and `create`: configs are the instruction sets, and a config's instance runs
// that set's task of each table.
template <auto kOffer>
bool supports_by_isa(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  Isa isa;
  return choose_isa(config, offer, isa) && kOffer(request, isa, offer);
}
template <auto kCreate, const auto &...kTasks>
std::unique_ptr<sdk::Instance> create_by_isa(const polyconv_request &request, int32_t config) {
  return kCreate(request, static_cast<Isa>(config), kTasks[config]...);
}

// The backends' probe: always available, with the instruction set as a note (isa.cpp).
polyconv_status probe(char *reason, size_t size);

} // namespace polyconv::cpu
