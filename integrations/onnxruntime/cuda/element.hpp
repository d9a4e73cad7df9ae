// element.hpp - one element of a loop, for a GPU's threads; tests walk the same code on the host.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_CUDA_ELEMENT_HPP
#define POLYCONV_ORT_CUDA_ELEMENT_HPP

#include "run/device_loop.hpp"

namespace polyconv_ort {

// Whatever reads and writes numbers of 16 bits: Half::load(const void *, index) and Half::store(void *, index, float).
template <class Half>
struct Elements {
  POLYCONV_ORT_BOTH static float load(Element element, const void *data, int64_t i) {
    return element == Element::kF32 ? static_cast<const float *>(data)[i] : Half::load(data, i);
  }
  POLYCONV_ORT_BOTH static void store(Element element, void *data, int64_t i, float value) {
    if (element == Element::kF32)
      static_cast<float *>(data)[i] = value;
    else
      Half::store(data, i, value);
  }
  POLYCONV_ORT_BOTH static void move(Element element, const void *from, int64_t i, void *to, int64_t k) {
    if (element == Element::kF32)
      static_cast<uint32_t *>(to)[k] = static_cast<const uint32_t *>(from)[i];
    else if (element == Element::kF16)
      static_cast<uint16_t *>(to)[k] = static_cast<const uint16_t *>(from)[i];
    else
      static_cast<uint8_t *>(to)[k] = static_cast<const uint8_t *>(from)[i];
  }
};

// Element `linear` of the loop in the order of its axes. Index is int32_t where no index and no offset is larger.
template <class Half, class Index>
POLYCONV_ORT_BOTH void run_element(const DeviceLoop &loop, Index linear) {
  using All = Elements<Half>;
  Index index[kMostAxes] = {};
  Index result = 0;
  for (int axis = loop.axes - 1; axis >= 0; --axis) {
    const auto size = static_cast<Index>(loop.sizes[axis]);
    index[axis] = linear % size, linear /= size;
    result += index[axis] * static_cast<Index>(loop.result_strides[axis]);
  }
  auto offset = [&](const DeviceLoop::Operand &operand) {
    Index at = 0;
    for (int axis = 0; axis < loop.axes; ++axis)
      at += index[axis] / static_cast<Index>(loop.repeat[axis]) * static_cast<Index>(operand.strides[axis]);
    return at;
  };
  const DeviceLoop::Operand &first = loop.operands[0];
  if (loop.step_count == 0) return All::move(loop.element, first.data, offset(first), loop.result, result);
  float value = All::load(first.element, first.data, offset(first));
  for (int i = 0; i < loop.step_count; ++i) {
    const DeviceLoop::Step &step = loop.steps[i];
    float other = 0;
    if (step.operand >= 0) {
      const DeviceLoop::Operand &operand = loop.operands[step.operand];
      other = All::load(operand.element, operand.data, offset(operand));
    }
    value = stepped(step.kind, step.alpha, step.beta, value, other);
  }
  All::store(loop.element, loop.result, result, value);
}

inline int64_t elements_of(const DeviceLoop &loop) {
  int64_t count = 1;
  for (int axis = 0; axis < loop.axes; ++axis) count *= loop.sizes[axis];
  return count;
}

// Whether 32 bits hold every index and offset of a loop.
inline bool is_small(const DeviceLoop &loop) {
  const int64_t most = INT64_C(0x7fffffff);
  auto reach = [&](const int64_t *strides) {
    int64_t sum = 0;
    for (int axis = 0; axis < loop.axes; ++axis) sum += (loop.sizes[axis] - 1) * strides[axis];
    return sum;
  };
  if (elements_of(loop) > most || reach(loop.result_strides) > most) return false;
  for (int i = 0; i < loop.operand_count; ++i)
    if (reach(loop.operands[i].strides) > most) return false;
  return true;
}

} // namespace polyconv_ort
#endif // POLYCONV_ORT_CUDA_ELEMENT_HPP
