// chain.cpp - two layers and more of a chain by bands of rows: each row that a layer makes is read by the next one from
// the cache, and what lies between layers never reaches memory. Any forward layers of 2D images that the kernels image,
// depthwise, dense and direct take, with poolings and residuals between them.
//
// Floor: the sums of the layers' own kernels from the cache; one read of the chain's input and one write of its result.
// Made of other kernels alone: it has no code of its own for an instruction set.
// SPDX-License-Identifier: Apache-2.0
#ifdef POLYCONV_DRIVER
#include "cpu/chain/driver.hpp"
#include "cpu/kernels.hpp"

namespace polyconv::cpu {
namespace {

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  Isa isa;
  ChainPlan plan;
  return choose_isa(config, offer, isa) && chain_plan(request, isa, plan, offer);
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return chain_create(request, static_cast<Isa>(config));
}

} // namespace

const sdk::Kernel kernel_chain = {"chain", 0, isa_names, kIsaCount, supports, create, sdk::kActivationTraits};

} // namespace polyconv::cpu
#endif
