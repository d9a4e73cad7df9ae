// region.hpp - one fused node at work: layers that hang together, a schedule for each set of sizes, and the run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_REGION_HPP
#define POLYCONV_ORT_REGION_HPP

#include <list>
#include <map>
#include <mutex>

#include "runtime/settings.hpp"
#include "runtime/threads.hpp"
#include "schedule/schedule.hpp"

namespace polyconv_ort {

class Region {
 public:
  // `outputs` are the fused node's, by name.
  Region(const Api &, Place &, const Recipes &, const Inputs &, const Inputs &outputs, const Settings &);
  // One run, on any thread, several at once. Throws Error, polyconv::Error or std::invalid_argument.
  void run(OrtKernelContext *);
  size_t layers() const;
  size_t operators() const { return network_.links.size() - layers(); }
  std::string report();
  int32_t threads();                            // into how many threads' work its plans are cut at most
  const Hands &hands() const { return hands_; } // who had a part in its runs, where they are timed

 private:
  struct Constants { // of each layer
    std::vector<View> weights;
    std::vector<Layer::Numbers> numbers;
  };
  struct Told {                                 // of a layer
    std::map<std::string, std::string> kernels; // by the token of the shape, the newest few
    double seconds = 0, least = 0;              // of runs, where they are timed; 0: not yet
  };
  Constants changing(const OrtKernelContext *) const;
  void prepare(const std::vector<Value> &inputs, const std::map<std::string, int> &tensors);
  std::shared_ptr<const Schedule> find(const std::string &key);
  std::shared_ptr<const Schedule> ready(const std::vector<Sized> &inputs, const Constants &);
  void tell(const Schedule &);
  void compute(OrtKernelContext *, const Schedule &, const Constants &, std::vector<void *> outer);
  struct Pointers {                            // of one run
    const std::vector<void *> &outer, &places; // by tensor: the runtime's own; where the layers have them
    void *workspace, *stream;
  };
  void add_time(Told &, double seconds);
  void run_step(const OrtKernelContext *, const Constants &, const Schedule &, const Schedule::Step &,
                const Pointers &);
  void run_plan(const OrtKernelContext *, const Constants &, const Schedule::Step &, const Pointers &);
  void run_pass(const Schedule &, const Network::Link &, const Pointers &);

  const Api &api_;
  Place &place_;
  const Settings &settings_;
  Network network_;
  std::vector<int> entries_; // tensors that come from outside
  bool is_fixed_ = true;     // nothing but these tensors and the bias changes from run to run
  Constants constants_;      // where that is so

  std::mutex making_;                     // of schedules; taken before the other
  std::map<std::string, Choice> choices_; // by about how large the inputs are
  std::mutex mutex_;
  std::list<std::pair<std::string, std::shared_ptr<const Schedule>>> ready_; // newest first
  std::vector<Told> told_;
  int64_t runs_ = 0, plans_ = 0;
  int32_t threads_ = 0;
  Hands hands_;
};

} // namespace polyconv_ort
#endif // POLYCONV_ORT_REGION_HPP
