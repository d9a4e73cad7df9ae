// accepts.hpp - the questions that kernels ask about a request before they take it, each with its reason; and what no
// kernel here goes beyond, whatever a problem's numbers are: 64-bit arithmetic, and work and workspace that follow from
// the tensors, not from how far padding, strides and dilation reach. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/kernel.hpp>

namespace polyconv::cpu {

// For every kernel that convolves one layer: the reasons that all share. The offer is filled but for the estimate and
// the weights where these return true.
bool takes_one_layer(const polyconv_request &request, sdk::Offer &offer);
bool takes_strips(const polyconv_request &request, sdk::Offer &offer); // likewise, for kernels that lay out strips
// The same for a kernel that goes forward, or computes gradients of weights.
bool takes_strips(const polyconv_request &request, int32_t direction, sdk::Offer &offer);
bool goes(int32_t direction, const polyconv_layer &layer, sdk::Offer &offer);
bool takes_no_pooling(const polyconv_layer &layer, sdk::Offer &offer);
bool can_list_a_pixel(const polyconv_layer &layer, sdk::Offer &offer); // for kernels that keep one of padding

// Rejects, with this reason, a layer that the kernel takes once its tensors have another layout. Returns false.
bool wants_layout(int32_t layout, const char *reason, sdk::Offer &offer);

// Says what packed weights are (printf-style) and their bytes.
POLYCONV_PRINTF(3, 4) void set_weights(sdk::Offer &offer, int64_t bytes, const char *format, ...);

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
