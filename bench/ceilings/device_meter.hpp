// device_meter.hpp - the ceilings of a device with memory of its own, through the public API alone: copies are
// measured, multiply-adds computed from what the device says of itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "api/handles.hpp"
#include "ceilings/ceilings.hpp"

namespace polyconv::bench {

// Multiply-adds of a kind ("fma_f32", "fma_bf16") of all units at the highest clock, two operations each: what no
// kernel can exceed, and none quite reaches, because clocks sink under full load. Types that have tensor cores count
// those, without sparsity. None for a device whose units are not known, and for kinds that it has no unit for.
std::optional<double> peak_fma(const polyconv_device_properties &properties, const std::string &kind);

class DeviceMeter final : public RateMeter {
 public:
  // Throws Unable where the device has no streams, events or memory to copy.
  explicit DeviceMeter(const polyconv_device *device);

  bool has(const std::string &kind) const override { return peak_fma(properties_, kind).has_value(); }
  // The computed peak; throws Unable where none is known.
  double fma(const std::string &kind, double seconds) override;
  double copy() override;

  // One such copy, enqueued only: the caches forget what they held.
  void enqueue_copy(void *stream);

 private:
  const polyconv_device *device_;
  polyconv_device_properties properties_;
  size_t bytes_ = 0; // of each of the two arrays
  DeviceObject stream_, start_, stop_, source_, destination_;
};

// Everything known about a device.
Ceilings measure_device_ceilings(const polyconv_device *device);

} // namespace polyconv::bench
