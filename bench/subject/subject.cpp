// subject.cpp - one problem made ready on one kernel.
// SPDX-License-Identifier: Apache-2.0
#include "subject/subject.hpp"

#include "subject/host_clock.hpp"
#include "subject/tensors.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

Subject::Subject(const polyconv_device *device, const Work &work, const PlanRequest &request, BufferPool &pool,
                 const std::string &workspace, int64_t memory_limit)
    : Runnable(device),
      work_(work),
      request_(request),
      planned_(device, work, request),
      ready_(device, planned_, attach(pool, workspace, memory_limit), stream()),
      first_us_(run(1) * 1e6) {
  polyconv_buffers_init(&host_);
}

polyconv_buffers Subject::attach(BufferPool &pool, const std::string &workspace, int64_t memory_limit) const {
  const int64_t own = planned_.info().workspace_bytes + planned_.weights_bytes();
  if (tensor_bytes(work_) > memory_limit - own)
    throw Unable("skipped",
                 "tensors, weights and workspace take " + more_than(tensor_bytes(work_) + own, memory_limit));
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  for (const TensorUse &use : tensors_of(work_)) {
    const bool separable = use.which == POLYCONV_TENSOR_WEIGHTS && work_.problems[use.layer].separable != 0;
    if (separable && !use.written && use.bytes > 0) { // as declared: all weights the same
      void *weights = pool.get(use.role() + " (separable)", use.bytes, use.type, true);
      require(polyconv_device_fill(device(), weights, 0x3f, static_cast<size_t>(use.bytes), stream()));
      set_pointer(buffers, use, weights);
    } else {
      set_pointer(buffers, use, pool.get(use.role(), use.bytes, use.type, use.written));
    }
  }
  buffers.workspace = pool.get(workspace, planned_.info().workspace_bytes, POLYCONV_U8, true);
  buffers.workspace_size = static_cast<size_t>(planned_.info().workspace_bytes);
  return buffers;
}

// Host copies of every tensor, random where they are read.
void Subject::make_host_copies() {
  if (!host_memory_.empty()) return;
  for (const TensorUse &use : tensors_of(work_)) {
    host_memory_.push_back(random_bytes(use.type, static_cast<size_t>(use.bytes), 1));
    set_pointer(host_, use, use.bytes > 0 ? host_memory_.back().data() : nullptr);
  }
}

double Subject::run_with_transfers() {
  if (!has_streams()) return run(1); // the CPU reads the caller's memory
  make_host_copies();
  const std::vector<TensorUse> uses = tensors_of(work_);
  const HostClock::time_point begin = HostClock::now();
  const auto move = [&](bool written) {
    for (size_t i = 0; i < uses.size(); ++i) {
      if (uses[i].written != written || uses[i].bytes == 0 || !uses[i].per_run()) continue;
      void *own = pointer_of(ready_.buffers(), uses[i]), *host = host_memory_[i].data();
      require(polyconv_device_copy(device(), written ? host : own, written ? own : host,
                                   static_cast<size_t>(uses[i].bytes), stream()));
    }
  };
  move(false);
  submit();
  move(true);
  wait();
  return seconds_since(begin);
}

double Subject::run_end_to_end() {
  make_host_copies();
  const polyconv_options options = options_of(request_);
  const HostClock::time_point begin = HostClock::now();
  require(polyconv_convolve(device(), work_.problems.data(), static_cast<int32_t>(work_.problems.size()), &options,
                            &host_));
  return seconds_since(begin);
}

} // namespace polyconv::bench
