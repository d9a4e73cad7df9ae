// gpu_kernels.cpp - see gpu_kernels.hpp. The library is opened when it is wanted: it comes with the CUDA Toolkit, and
// the bench needs none.
// SPDX-License-Identifier: Apache-2.0
#include "measure/gpu_kernels.hpp"

#ifdef POLYCONV_CUPTI
#include <algorithm>
#include <cstdlib>
#include <mutex>

#include <cupti.h>
#include <cxxabi.h>
#include <dlfcn.h>
#endif

namespace polyconv::bench {

#ifdef POLYCONV_CUPTI

namespace {

constexpr size_t kBufferBytes = 1 << 20;

// What CUPTI is asked, found by name. Records are laid out as in the header, so the library must be of its version.
struct Cupti {
  decltype(&cuptiActivityRegisterCallbacks) activity_register = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush = nullptr;
  decltype(&cuptiActivityGetNextRecord) next = nullptr;
  decltype(&cuptiGetTimestamp) timestamp = nullptr;
  bool there = false;

  Cupti() {
    const std::string name = "libcupti.so." + std::to_string(CUDA_VERSION / 1000);
    void *library = nullptr;
    for (const std::string &path : {name, "/usr/local/cuda/lib64/" + name, "/usr/local/cuda/lib/" + name,
                                    "/usr/local/cuda/extras/CUPTI/lib64/" + name})
      if (library == nullptr) library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    there = find(library, "cuptiActivityRegisterCallbacks", &activity_register) &&
            find(library, "cuptiActivityEnable", &enable) && find(library, "cuptiActivityDisable", &disable) &&
            find(library, "cuptiActivityFlushAll", &flush) && find(library, "cuptiActivityGetNextRecord", &next) &&
            find(library, "cuptiGetTimestamp", &timestamp);
  }

  template <class Function>
  static bool find(void *library, const char *name, Function *function) {
    *function = reinterpret_cast<Function>(dlsym(library, name));
    return *function != nullptr;
  }
};

Cupti &cupti() {
  static Cupti opened;
  return opened;
}

// CUPTI hands full buffers to a thread of its own.
struct Records {
  std::mutex mutex;
  std::vector<GpuKernel> kernels; // `begin` in CUPTI's clock until take_gpu_kernels
  HostClock::time_point host;     // one moment by both clocks
  uint64_t cupti_ns = 0;
};

Records &records() {
  static Records &kept = *new Records; // never destroyed: that thread may outlive main
  return kept;
}

std::string name_in_source(const char *mangled) {
  int status = 0;
  char *text = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string name = status == 0 ? text : mangled;
  std::free(text);
  return name;
}

void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *most_records) {
  *buffer = static_cast<uint8_t *>(std::aligned_alloc(8, kBufferBytes));
  *size = *buffer != nullptr ? kBufferBytes : 0;
  *most_records = 0; // as many as fit
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t *buffer, size_t, size_t valid) {
  Records &kept = records();
  const std::lock_guard<std::mutex> lock(kept.mutex);
  for (CUpti_Activity *record = nullptr; cupti().next(buffer, valid, &record) == CUPTI_SUCCESS;) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto &kernel = *reinterpret_cast<const CUpti_ActivityKernel10 *>(record);
    const auto since = std::chrono::nanoseconds(static_cast<int64_t>(kernel.start - kept.cupti_ns));
    kept.kernels.push_back({name_in_source(kernel.name),
                            kept.host + std::chrono::duration_cast<HostClock::duration>(since),
                            static_cast<double>(kernel.end - kernel.start) * 1e-3});
  }
  std::free(buffer);
}

} // namespace

bool begin_gpu_kernels() {
  if (!cupti().there || cupti().activity_register(give_buffer, take_buffer) != CUPTI_SUCCESS ||
      cupti().enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS)
    return false;
  Records &kept = records();
  const std::lock_guard<std::mutex> lock(kept.mutex);
  kept.kernels.clear();
  kept.host = HostClock::now();
  if (cupti().timestamp(&kept.cupti_ns) == CUPTI_SUCCESS) return true;
  cupti().disable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  return false;
}

std::vector<GpuKernel> take_gpu_kernels() {
  if (!cupti().there) return {};
  cupti().flush(0);
  cupti().disable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  Records &kept = records();
  const std::lock_guard<std::mutex> lock(kept.mutex);
  std::vector<GpuKernel> kernels = std::move(kept.kernels);
  kept.kernels.clear();
  std::sort(kernels.begin(), kernels.end(), [](const GpuKernel &a, const GpuKernel &b) { return a.begin < b.begin; });
  return kernels;
}

#else

bool begin_gpu_kernels() {
  return false;
}

std::vector<GpuKernel> take_gpu_kernels() {
  return {};
}

#endif

} // namespace polyconv::bench
