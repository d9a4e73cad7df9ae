// device_meter.cpp - the ceilings of a device with memory of its own.
// SPDX-License-Identifier: Apache-2.0
#include "device_meter.hpp"

#include <algorithm>

#include "../machine.hpp"

namespace polyconv::bench {

namespace {

// Multiply-adds a clock of one multiprocessor. Source: CUDA C++ Programming Guide, "Throughput of Native Arithmetic
// Instructions".
struct Lanes {
  int capability; // 90 for 9.0
  int f32, f64;
};
constexpr Lanes kLanes[] = {{75, 64, 2},  {80, 64, 32},  {86, 128, 2},   {87, 128, 2},
                            {89, 128, 2}, {90, 128, 64}, {100, 128, 64}, {120, 128, 2}};

constexpr int64_t kMostBytes = int64_t{1} << 30; // of an array: far beyond any cache
constexpr int64_t kMemoryParts = 64;             // an array takes no more than this part of the memory
constexpr int kPasses = 4;                       // in a sample: its beginning must not show

} // namespace

std::optional<double> peak_fma(const polyconv_device_properties &properties, bool f64) {
  for (const Lanes &lanes : kLanes)
    if (lanes.capability == properties.compute_capability && properties.clock_mhz > 0)
      return 2.0 * (f64 ? lanes.f64 : lanes.f32) * properties.compute_units * properties.clock_mhz * 1e6;
  return std::nullopt;
}

DeviceMeter::DeviceMeter(const polyconv_device *device)
    : device_(device), properties_(sized<polyconv_device_properties>()) {
  require(polyconv_device_get_properties(device, &properties_));
  bytes_ = static_cast<size_t>(std::clamp<int64_t>(properties_.memory_bytes / kMemoryParts, 1 << 20, kMostBytes));
  stream_ = make_stream(device);
  start_ = make_event(device);
  stop_ = make_event(device);
  source_ = make_memory(device, bytes_, POLYCONV_MEMORY_DEVICE);
  destination_ = make_memory(device, bytes_, POLYCONV_MEMORY_DEVICE);
  require(polyconv_device_fill(device, source_.get(), 0x5A, bytes_, stream_.get()));
  copy(); // touches the destination, and wakes the device
}

double DeviceMeter::fma(bool f64, double) {
  const std::optional<double> peak = peak_fma(properties_, f64);
  if (!peak) throw Unable("unsupported", std::string("the multiply-add rate of ") + properties_.name + " is not known");
  return *peak;
}

void DeviceMeter::enqueue_copy(void *stream) {
  require(polyconv_device_copy(device_, destination_.get(), source_.get(), bytes_, stream));
}

double DeviceMeter::copy() {
  require(polyconv_event_record(device_, start_.get(), stream_.get()));
  for (int pass = 0; pass < kPasses; ++pass) enqueue_copy(stream_.get());
  require(polyconv_event_record(device_, stop_.get(), stream_.get()));
  require(polyconv_event_synchronize(device_, stop_.get()));
  double milliseconds = 0;
  require(polyconv_event_elapsed(device_, start_.get(), stop_.get(), &milliseconds));
  return 2e3 * kPasses * static_cast<double>(bytes_) / std::max(milliseconds, 1e-6);
}

Ceilings measure_device_ceilings(const polyconv_device *device) {
  constexpr int kSamples = 7;
  auto properties = sized<polyconv_device_properties>();
  require(polyconv_device_get_properties(device, &properties));
  Ceilings ceilings{properties.name, properties.compute_units, utc_now(), {}};
  for (const bool f64 : {false, true})
    if (const auto peak = peak_fma(properties, f64))
      ceilings.rates.push_back({f64 ? "fma_f64" : "fma_f32", "computed", properties.compute_units, *peak});
  DeviceMeter meter(device);
  double best = 0; // not the median, as on the CPU
  for (int i = 0; i < kSamples; ++i) best = std::max(best, meter.copy());
  ceilings.rates.push_back({"copy", "device to device", properties.compute_units, best});
  return ceilings;
}

} // namespace polyconv::bench
