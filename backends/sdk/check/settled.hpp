// settled.hpp - what a check throws, as the result that a caller gets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/check.hpp>

#include <new>
#include <stdexcept>

#include "execute.hpp"
#include "oracle.hpp"

namespace polyconv::check {

// The result that check(result) fills, with the verdict and the sentence of what it throws.
template <class Check>
Result settled(const Check &check) noexcept {
  Result result;
  try {
    check(result);
  } catch (const CallFailed &failed) {
    result.verdict = failed.status == POLYCONV_UNSUPPORTED ? Verdict::Unsupported : Verdict::Failed;
    result.status = failed.status;
    result.sentence = failed.sentence;
  } catch (const Misbehaved &misbehaved) {
    result.verdict = Verdict::Wrong;
    result.sentence = misbehaved.sentence;
  } catch (const NotApplicable &reason) {
    result.verdict = Verdict::Skipped;
    result.sentence = reason.sentence;
  } catch (const std::bad_alloc &) {
    result.status = POLYCONV_OUT_OF_MEMORY;
    result.sentence = "no memory for the data of this check";
  } catch (const std::exception &error) {
    result.sentence = error.what();
  }
  return result;
}

} // namespace polyconv::check
