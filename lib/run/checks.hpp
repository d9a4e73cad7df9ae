// checks.hpp - what is checked of a run's pointers: the O(1) part that every run makes, and the part that looks at
// each buffer (polyconv_buffers_check).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/plan.hpp"

#include <array>

namespace polyconv {

// Fills *from with the caller's pointers in the caller's roles, weights resolved, and checks plan and buffers for NULL,
// the pointers that the problem requires, workspace and packed formats. Never throws, never allocates.
polyconv_status gather(const polyconv_plan *plan, const polyconv_buffers *buffers, polyconv_arguments *from) noexcept;

// Where buffers must lie.
enum class Memory {
  OfDevice, // the plan's device
  OfHost    // polyconv_convolve's
};

// One buffer of a run.
struct Buffer {
  uint16_t slot;
  bool written;
  bool is_tensor; // else plain bytes
  polyconv_tensor tensor;
  int64_t bytes;
  char *pointer; // of its first byte
  int64_t shift; // bytes from there to the caller's pointer: not 0 where strides are negative
};

// Every buffer that the problem has and that is neither NULL nor empty. The host's weights are raw, the device's in the
// plan's format; the host has no workspace. Allocates nothing, so that a run with options.checked does not either.
class BufferList {
 public:
  BufferList(const polyconv_plan &plan, const polyconv_arguments &from, Memory memory);
  const Buffer *begin() const { return buffers_.data(); }
  const Buffer *end() const { return buffers_.data() + count_; }

 private:
  void add_rest(const polyconv_arguments &from, size_t i, const Layer &layer, bool gradient);
  void add(const polyconv_arguments &from, uint16_t slot, const polyconv_problem &problem, int32_t which, bool written);
  void add_bytes(const polyconv_arguments &from, uint16_t slot, int64_t bytes, bool written);

  std::array<Buffer, kSlots> buffers_;
  size_t count_ = 0;
};

// Pointer kind, alignment of elements, and overlap of what is written with anything else. `from` as gather left it.
// Throws Failure(INVALID_ARGUMENT) naming the buffer.
void check_buffers(const polyconv_plan &plan, const polyconv_arguments &from, Memory memory);

// Fails for the first of the required pointers that is NULL. Never throws.
polyconv_status check_required(const polyconv_plan &plan, const polyconv_arguments &from) noexcept;

// The CPU has no stream but NULL: another is a mistake that its own calls refuse, and so does a run. Never throws.
polyconv_status check_stream(const polyconv_device &device, const void *stream) noexcept;

// The caller's struct, of whatever version, in this one's; throws Failure.
polyconv_buffers copy_buffers(const polyconv_buffers *buffers);

// The caller's pointers in slots, weights as given in buffers.weights.
void copy_pointers(const polyconv_buffers &buffers, polyconv_arguments *from) noexcept;

// "buffers.weights[1]". The result lies in `text`.
using SlotName = char[40];
const char *slot_name(uint16_t slot, SlotName &text) noexcept;

} // namespace polyconv
