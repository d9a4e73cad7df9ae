// plans.hpp - the plans that one schedule tries, each made once: its layers and chains in several layouts.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_PLANS_HPP
#define POLYCONV_ORT_PLANS_HPP

#include <polyconv/polyconv.hpp>

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace polyconv_ort {

using Problems = std::vector<polyconv::Problem>; // of one layer, or of a chain

struct Made {
  std::shared_ptr<const polyconv::Plan> plan; // NULL: nobody takes it
  polyconv_plan_info info = {};
  double estimate = std::numeric_limits<double>::infinity();
};

class Plans {
 public:
  explicit Plans(const polyconv::Device &device) : device_(device) {}
  // Layers that are alike share one.
  const Made &of(const Problems &, const polyconv::Options &);
  // Makes those that will be asked for, on the threads that runs with these options have.
  void prepare(const std::vector<Problems> &, const polyconv::Options &);

 private:
  const polyconv::Device &device_;
  std::map<std::string, Made> made_;
};

} // namespace polyconv_ort
#endif // POLYCONV_ORT_PLANS_HPP
