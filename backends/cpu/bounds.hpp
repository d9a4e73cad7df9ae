// bounds.hpp - what no kernel here goes beyond, whatever a problem's numbers are: 64-bit arithmetic, and work and
// workspace that follow from the tensors, not from how far padding, strides and dilation reach. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/kernel.hpp>

namespace polyconv::cpu {

// Whether the products of sizes that plans are made of stay far inside 64 bits; else rejects in words.
bool counts_in_64_bits(const polyconv_layer &layer, sdk::Offer &offer);

// For kernels that lay what a row of results reads into a strip, coordinate by coordinate: whether strips are about as
// long as what is read and written; else rejects in words.
bool walks_near(const polyconv_layer &layer, sdk::Offer &offer);

// Whether few enough padded coordinates are folded back into the input, one by one; else rejects in words.
bool folds_near(const polyconv_layer &layer, sdk::Offer &offer);

// Sets the workspace of `tasks` times `bytes`; whether that is within the policy's limit, and in proportion to a single
// layer's tensors and the threads; else rejects in words.
bool fits_workspace(const polyconv_request &request, int64_t tasks, int64_t bytes, sdk::Offer &offer);

} // namespace polyconv::cpu
