// lane.cpp - what belongs to one device while rows are measured on it.
// SPDX-License-Identifier: Apache-2.0
#include "measure/lane.hpp"

#include <limits>

#include "result/info.hpp"
#include "system/machine.hpp"

namespace polyconv::bench {

namespace {

constexpr double kMemoryShare = 0.6; // of the device's memory that one row may take

} // namespace

Lane::Lane(const polyconv_device *handle, const std::string &name)
    : device(handle), pool(handle), memory_limit(std::numeric_limits<int64_t>::max()), ceilings(known_ceilings(name)) {
  auto properties = sized<polyconv_device_properties>();
  require(polyconv_device_get_properties(handle, &properties));
  if (properties.memory_bytes > 0)
    memory_limit = static_cast<int64_t>(kMemoryShare * static_cast<double>(properties.memory_bytes));
  processors = properties.compute_units;
}

RateMeter &Lane::meter_of(const std::string &device_name, int threads) {
  if (device_name != "cpu") return device_meter();
  std::unique_ptr<CpuMeter> &meter = cpu_meters_[threads];
  if (!meter) meter = std::make_unique<CpuMeter>(threads);
  return *meter;
}

DeviceMeter &Lane::device_meter() {
  if (!device_meter_) device_meter_ = std::make_unique<DeviceMeter>(device);
  return *device_meter_;
}

void Lane::flush_cpu() {
  // A copy between arrays of twice the last cache together, by every processor.
  if (!flusher_) flusher_ = std::make_unique<CpuMeter>(processors, last_level_cache());
  flusher_->copy("plain");
}

} // namespace polyconv::bench
