// wall.hpp - the wall between C++ and the runtime's C ABI: whatever is thrown becomes a status with a sentence.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_WALL_HPP
#define POLYCONV_ORT_WALL_HPP

#include <polyconv/polyconv.hpp>

#include "runtime/graph.hpp"

namespace polyconv_ort {

template <class Work>
OrtStatus *guarded(const Api &api, Work work) noexcept {
  try {
    work();
    return nullptr;
  } catch (const Error &error) {
    return api.CreateStatus(error.code, error.what());
  } catch (const polyconv::Error &error) {
    return api.CreateStatus(error.status() == POLYCONV_INVALID_ARGUMENT ? kInvalidArgument : kFail, error.what());
  } catch (const std::invalid_argument &error) { // of geometry.hpp
    return api.CreateStatus(kInvalidArgument, error.what());
  } catch (const std::exception &error) {
    return api.CreateStatus(kFail, error.what());
  } catch (...) {
    return api.CreateStatus(kFail, "polyconv: an exception of unknown type");
  }
}

} // namespace polyconv_ort
#endif // POLYCONV_ORT_WALL_HPP
