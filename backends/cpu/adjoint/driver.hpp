// driver.hpp - kernels for backward data made of kernels that go forward: sdk/adjoint.hpp says how,
// sdk/adjoint_kernel.hpp has what CUDA shares. The parts of a strided problem run one after the other, each on all
// threads. Driver side only.
//
//   POLYCONV_ADJOINT(dense)          in kernels.inc
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/adjoint_kernel.hpp>

namespace polyconv::cpu {

bool adjoint_supports(const sdk::Kernel &forward, const polyconv_request &request, int32_t config, sdk::Offer &offer);
std::unique_ptr<sdk::Instance> adjoint_create(const sdk::Kernel &forward, const polyconv_request &request,
                                              int32_t config);

// Backward data by `Forward`, in its configs. Not for kernels that bind pointers.
template <const sdk::Kernel &Forward>
sdk::Kernel adjoint_of(const char *name) {
  return sdk::adjoint_kernel<Forward, adjoint_supports, adjoint_create>(name);
}

} // namespace polyconv::cpu
