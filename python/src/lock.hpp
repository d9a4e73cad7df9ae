// lock.hpp - Python's global lock, given up while a call runs and taken again after it. Before Python 3.14 a thread
// that asks for the lock while the interpreter ends is ended by it, daemon threads in the middle of a call, by an
// exception that nobody may catch: it would run into the first function that is noexcept, a destructor's or nanobind's,
// and take the process down. Such a thread waits here instead, until the process is gone, as 3.14 lets it.
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_PYTHON_LOCK_HPP
#define POLYCONV_PYTHON_LOCK_HPP

#include <nanobind/nanobind.h>

#include <chrono>
#include <thread>

namespace polyconv_python {

namespace nb = nanobind;

// What `make` makes of Python's, made once and kept for ever. Not as a local static that makes itself: a second thread
// would wait for the first with the lock in its hands, and the first for the lock, which imports give up. Here two may
// make it.
template <class Make>
nb::handle made_once(PyObject *&kept, Make make) {
  if (kept == nullptr) {
    nb::object made = make();
    if (kept == nullptr) kept = made.release().ptr();
  }
  return kept;
}

inline void take_lock(PyThreadState *state) {
  struct Watch {
    bool taken = false;
    ~Watch() {
      while (!taken) std::this_thread::sleep_for(std::chrono::hours(1));
    }
  } watch;
  PyEval_RestoreThread(state);
  watch.taken = true;
}

// While it lives this thread does not hold the lock.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  Unlocked(const Unlocked &) = delete;
  ~Unlocked() { take_lock(state_); }

 private:
  friend class LockedAgain;
  PyThreadState *state_;
};

// While it lives a thread that is Unlocked holds the lock for a moment: in a callback.
class LockedAgain {
 public:
  explicit LockedAgain(Unlocked &from) : from_(from) { take_lock(from_.state_); }
  LockedAgain(const LockedAgain &) = delete;
  ~LockedAgain() { from_.state_ = PyEval_SaveThread(); }

 private:
  Unlocked &from_;
};

} // namespace polyconv_python
#endif // POLYCONV_PYTHON_LOCK_HPP
