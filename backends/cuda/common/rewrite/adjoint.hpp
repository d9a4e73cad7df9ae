// adjoint.hpp - kernels for backward data made of kernels that go forward: sdk/adjoint.hpp says how,
// sdk/adjoint_kernel.hpp has what the CPU shares. The parts of a strided problem are launched one after the other.
// A plug-in's kernels.inc names one by a line POLYCONV_ADJOINT(wgmma), which is the kernel wgmma_data
// (device/backend.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/adjoint_kernel.hpp>

namespace polyconv::cuda {

bool adjoint_supports(const sdk::Kernel &forward, const polyconv_request &request, int32_t config, sdk::Offer &offer);
std::unique_ptr<sdk::Instance> adjoint_create(const sdk::Kernel &forward, const polyconv_request &request,
                                              int32_t config);

// The weights of a part as its forward layer has them, densely, where groups' filters are not a tensor with the roles
// of their channels exchanged. `view`: those of the part.
void exchange_channels(const polyconv_layer &layer, const polyconv_tensor &view, const void *raw, void *dense,
                       void *stream);

// Backward data by `Forward`, in its configs. Not for kernels that bind pointers.
template <const sdk::Kernel &Forward>
sdk::Kernel adjoint_of(const char *name) {
  return sdk::adjoint_kernel<Forward, adjoint_supports, adjoint_create>(name);
}

} // namespace polyconv::cuda
