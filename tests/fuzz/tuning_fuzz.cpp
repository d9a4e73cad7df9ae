// tuning_fuzz.cpp - any bytes as a tuning database: what is read is written as a file that reads as the same, whole.
// SPDX-License-Identifier: Apache-2.0
#include "checks.hpp"

#include "tune/text.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using polyconv_fuzz::require;
  polyconv::TuningTable table;
  int64_t skipped = 0;
  const std::string_view bytes(reinterpret_cast<const char *>(data), size);
  if (polyconv::read_tuning_text(bytes, &table, &skipped) != polyconv::TuningText::Read)
    return require(table.empty(), "nothing of a foreign or a newer file is taken"), 0;
  const std::string text = polyconv::tuning_text(table);
  polyconv::TuningTable again;
  int64_t skipped_again = 0;
  require(polyconv::read_tuning_text(text, &again, &skipped_again) == polyconv::TuningText::Read,
          "a text written is read");
  require(skipped_again == 0, "no line that was written is skipped");
  require(polyconv::tuning_text(again) == text, "and it is written the same");
  return 0;
}
