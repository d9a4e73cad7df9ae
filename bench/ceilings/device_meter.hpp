// device_meter.hpp - the ceilings of a device with memory of its own, through the public API alone: copies are
// measured, multiply-adds computed from what the device says of itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "../handles.hpp"
#include "ceilings.hpp"

namespace polyconv::bench {

// Multiply-adds of all units at the highest clock, two operations each: what no kernel without matrix units can exceed,
// and none quite reaches, because clocks sink under full load. None for a device whose units are not known.
std::optional<double> peak_fma(const polyconv_device_properties &properties, bool f64);

class DeviceMeter final : public RateMeter {
 public:
  // Throws Unable where the device has no streams, events or memory to copy.
  explicit DeviceMeter(const polyconv_device *device);

  // The computed peak; throws Unable where none is known.
  double fma(bool f64, double seconds) override;
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
