// device_meter.cpp - the ceilings of a device with memory of its own.
// SPDX-License-Identifier: Apache-2.0
#include "ceilings/device_meter.hpp"

#include <algorithm>

#include "system/machine.hpp"

namespace polyconv::bench {

namespace {

// Multiply-adds a clock of one multiprocessor. Sources: CUDA C++ Programming Guide, "Throughput of Native Arithmetic
// Instructions", for f32 and f64; NVIDIA's architecture white papers for f16 on tensor cores, dense. There bf16 is as
// fast, TF32 half as fast and s8 twice as fast.
struct Lanes {
  int capability; // 90 for 9.0
  int f32, f64, tensor_f16;
};
constexpr Lanes kLanes[] = {{75, 64, 2, 512},  {80, 64, 32, 1024},  {86, 128, 2, 512},    {87, 128, 2, 1024},
                            {89, 128, 2, 512}, {90, 128, 64, 2048}, {100, 128, 64, 4096}, {120, 128, 2, 512}};

// 0 where there is no unit.
int lanes_of(const Lanes &lanes, const std::string &kind) {
  const bool ampere = lanes.capability >= 80;
  if (kind == "fma_f32") return lanes.f32;
  if (kind == "fma_f64") return lanes.f64;
  if (kind == "fma_f16") return lanes.tensor_f16;
  if (kind == "fma_bf16") return ampere ? lanes.tensor_f16 : 0;
  if (kind == "fma_tf32") return ampere ? lanes.tensor_f16 / 2 : 0;
  return kind == "fma_s8" ? 2 * lanes.tensor_f16 : 0;
}

constexpr int64_t kMostBytes = int64_t{1} << 30; // of an array: far beyond any cache
constexpr int64_t kMemoryParts = 64;             // an array takes no more than this part of the memory
constexpr int kPasses = 4;                       // in a sample: its beginning must not show

} // namespace

std::optional<double> peak_fma(const polyconv_device_properties &properties, const std::string &kind) {
  for (const Lanes &lanes : kLanes) {
    if (lanes.capability != properties.compute_capability || properties.clock_mhz <= 0) continue;
    const int own = lanes_of(lanes, kind);
    if (own > 0) return 2.0 * own * properties.compute_units * properties.clock_mhz * 1e6;
  }
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

double DeviceMeter::fma(const std::string &kind, double) {
  const std::optional<double> peak = peak_fma(properties_, kind);
  if (!peak)
    throw Unable("unsupported", "the rate of " + kind_name(kind) + " of " + properties_.name + " is not known");
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
  for (const char *kind : {"fma_f32", "fma_f64", "fma_tf32", "fma_f16", "fma_bf16", "fma_s8"})
    if (const auto peak = peak_fma(properties, kind))
      ceilings.rates.push_back({kind, "computed", properties.compute_units, *peak});
  DeviceMeter meter(device);
  double best = 0; // not the median, as on the CPU
  for (int i = 0; i < kSamples; ++i) best = std::max(best, meter.copy());
  ceilings.rates.push_back({"copy", "device to device", properties.compute_units, best});
  return ceilings;
}

} // namespace polyconv::bench
