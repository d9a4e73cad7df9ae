// lane.hpp - what belongs to one device while rows are measured on it: memory, meters, ceilings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "ceilings/device_meter.hpp"
#include "subject/buffers.hpp"

namespace polyconv::bench {

struct Lane {
  // Throws Unable for a device that does not tell its properties.
  Lane(const polyconv_device *handle, const std::string &name);

  // The meter of the machine's own rates: of the CPU with so many threads, or of any other device.
  RateMeter &meter_of(const std::string &device_name, int threads);
  // Nothing of the problem stays in a cache of the CPU.
  void flush_cpu();
  // The same on any other device, enqueued. Throws Unable without room for it.
  void enqueue_flush(void *stream) { device_meter().enqueue_copy(stream); }

  const polyconv_device *device;
  BufferPool pool;
  int64_t memory_limit; // that one row may take
  int processors = 1;
  std::optional<Ceilings> ceilings;

 private:
  DeviceMeter &device_meter();

  std::map<int, std::unique_ptr<CpuMeter>> cpu_meters_; // by threads
  std::unique_ptr<CpuMeter> flusher_;
  std::unique_ptr<DeviceMeter> device_meter_;
};

} // namespace polyconv::bench
