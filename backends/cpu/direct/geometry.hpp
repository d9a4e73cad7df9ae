// geometry.hpp - what the geometries of the direct kernels share. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/caches.hpp"
#include "cpu/common/count.hpp"
#include "cpu/direct/plan.hpp"

namespace polyconv::cpu {

constexpr int64_t kMostRows = 32; // result rows that share them

// Roles (which tensor is read, what is summed over, what is produced), axes and padding.
DirectPlan make_gather(const polyconv_layer &layer);

// Cuts W into chunks whose source rows fit the cache, and sets the bounds of lists.
void set_chunks(DirectPlan &p, int64_t lanes);

// The most rows of a block, at most `limit`, whose source rows fit the cache; sets row_blocks and row_slots too.
void set_block_rows(DirectPlan &p, int64_t limit);

// Places what is kept beside the source rows; returns the end.
int64_t place_lists(DirectPlan &p, int64_t at);

// The bytes of a block's source rows.
int64_t rows_bytes(const DirectPlan &p);

} // namespace polyconv::cpu
