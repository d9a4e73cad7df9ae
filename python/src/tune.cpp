// tune.cpp - polyconv_tune for Python: who watches is called with the global lock, which is free while kernels are
// timed.
// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <string>

#include "objects.hpp"

namespace polyconv_python {
namespace {

struct Watch {
  nb::handle progress; // may be None
  Unlocked *unlocked;  // of the thread that tunes, which calls
  nb::list finished;
  std::exception_ptr thrown;
};

// 0 to go on. Ctrl-C, and what the watcher raises, end the tuning and come out of it.
int32_t tell(void *context, const polyconv_tune_progress *now) {
  Watch &watch = *static_cast<Watch *>(context);
  const LockedAgain locked(*watch.unlocked);
  try {
    if (PyErr_CheckSignals() != 0) nb::raise_python_error();
    const nb::tuple told = nb::make_tuple(now->problem, now->finished != 0, now->token, now->kernel, now->reason,
                                          now->us, now->timed, now->known, now->elapsed_ms, now->left_ms, now->unkept);
    if (now->finished != 0) watch.finished.append(told);
    return watch.progress.is_none() || !watch.progress(told).is(nb::handle(Py_False)) ? 0 : 1;
  } catch (...) {
    watch.thrown = std::current_exception();
    return 1;
  }
}

nb::list tune(const std::string &device_name, const nb::list &from, const nb::dict &options_by_name, int64_t budget_ms,
              nb::handle progress) {
  std::vector<polyconv_problem> problems;
  for (nb::handle problem : from) problems.push_back(nb::cast<const Problem &>(problem).value);
  std::string texts[2];
  const polyconv_options options = options_from(options_by_name, texts);
  const polyconv_device *device = find_device(device_name);
  Watch watch = {progress, nullptr, nb::list(), nullptr};
  polyconv_status status;
  std::string sentence;
  {
    Unlocked unlocked;
    watch.unlocked = &unlocked;
    status = polyconv_tune(device, problems.data(), static_cast<int32_t>(problems.size()), &options, budget_ms, tell,
                           &watch);
    if (status != POLYCONV_SUCCESS) sentence = polyconv_last_error();
  }
  if (watch.thrown) std::rethrow_exception(watch.thrown);
  if (status != POLYCONV_SUCCESS) throw Failure(status, sentence);
  return watch.finished;
}

int64_t merge(nb::handle path) {
  int64_t taken = 0;
  require(polyconv_tune_merge(path_from(path).c_str(), &taken));
  return taken;
}

} // namespace

void bind_tune(nb::module_ &module) {
  module.def("tune", tune, nb::arg("device"), nb::arg("problems"), nb::arg("options"), nb::arg("budget_ms"),
             nb::arg("progress").none());
  module.def("tune_merge", merge);
}

} // namespace polyconv_python
