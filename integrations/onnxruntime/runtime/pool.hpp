// pool.hpp - a GPU's memory, kept for the next run: asking the driver takes as long as a layer and waits for all
// streams.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_POOL_HPP
#define POLYCONV_ORT_POOL_HPP

#include <polyconv/polyconv.hpp>

#include <map>
#include <mutex>

namespace polyconv_ort {

// A block that was given back may still be in use by what its stream has been told to do. So the next to have it is the
// same stream, for which that is over by then, or whoever comes when all streams have been waited for. What lies idle
// is never more than the most that was in use at once. Any function may be called on any thread.
class Pool {
 public:
  explicit Pool(const polyconv::Device &device) : device_(device) {}
  ~Pool();
  Pool(const Pool &) = delete;
  Pool &operator=(const Pool &) = delete;

  // `stream` is the one that will use the block alone; `any` where that is not known. Throws polyconv::Error.
  void *take(size_t bytes, void *stream, bool any);
  void give(void *block); // NULL is ignored

  void opened(void *stream);
  void synchronize(void *stream);
  void closed(void *stream); // which has been synchronised
  void drain();              // waits for all streams

 private:
  struct Block {
    size_t bytes;
    void *stream;
    bool any;
  };
  struct Idle {
    void *block;
    int64_t since; // the pool's count of blocks given back
  };
  using Idles = std::multimap<size_t, Idle>; // by bytes
  void *reuse(Idles &, size_t bytes, bool any);
  void release_all();
  void trim();
  void drain_since(int64_t since);

  polyconv::Device device_;
  std::mutex mutex_;
  std::map<void *, Block> used_;
  std::map<void *, Idles> idle_; // of each stream
  Idles idle_of_any_;
  std::map<void *, int64_t> drained_; // of each stream, the count when it was waited for last
  int64_t given_ = 0;
  size_t used_bytes_ = 0, most_used_ = 0, idle_bytes_ = 0;
};

} // namespace polyconv_ort
#endif // POLYCONV_ORT_POOL_HPP
