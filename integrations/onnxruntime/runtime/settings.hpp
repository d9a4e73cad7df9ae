// settings.hpp - the provider's options, as the session's configuration holds them:
// "ep.polyconvexecutionprovider.<key>".
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_SETTINGS_HPP
#define POLYCONV_ORT_SETTINGS_HPP

#include <polyconv/polyconv.h>

#include <string>

#include "runtime/ort_abi.hpp"

namespace polyconv_ort {

constexpr char kProviderName[] = "PolyconvExecutionProvider";

struct Settings {
  int32_t math = POLYCONV_MATH_STRICT;
  int32_t determinism = POLYCONV_DETERMINISM_RUN;
  std::string kernel;                 // a glob over polyconv's kernels, "" for all
  int32_t threads = 0;                // into how many threads' work a layer is cut; 0: as many as the process may use
  bool threads_of_affinities = false; // they are no option's but as many as the session's affinities name
  bool session_pool = true;           // work runs on the session's threads; false: on polyconv's own
  bool log = false;                   // what was taken and what was not goes to the session's log, as warnings
  bool profile = false;               // runs are timed, for the report
  std::string report;                 // a file that the report is written to when the session ends, "" for none
  int64_t plans = 16;                 // shapes a layer keeps plans for
};

// Reads what the session was given; throws Error with a sentence for a key or a value that there is not.
Settings read_settings(const Api &, const OrtSessionOptions *);

} // namespace polyconv_ort
#endif // POLYCONV_ORT_SETTINGS_HPP
