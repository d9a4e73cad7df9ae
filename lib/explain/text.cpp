// text.cpp - findings as text: what was chosen, the others by time, the rejected by reason, and what would
// change the answer.
// SPDX-License-Identifier: Apache-2.0
#include "explain/explain.hpp"
#include "plan/plan.hpp"
#include "registry/device.hpp"
#include "token/token.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace polyconv {
namespace {

double flops_of(const std::vector<Layer> &layers) {
  double sum = 0, flops = 0;
  for (const Layer &layer : layers)
    if (polyconv_problem_flops(&layer.problem, &flops) == POLYCONV_SUCCESS) sum += flops;
  return sum;
}

bool is_measured(const Findings &findings) {
  return !findings.provenance.day.empty();
}

// What others are compared with.
struct Yardstick {
  double us;     // 0: nothing was chosen
  bool measured; // a measurement says nothing about an estimate
};

Yardstick yardstick_of(const Findings &findings) {
  return {findings.us, is_measured(findings)};
}

std::string ratio_text(const Candidate &candidate, Yardstick chosen) {
  if (chosen.us <= 0 || candidate.measured != chosen.measured) return "";
  return formatted("%.2fx", candidate.estimate_us / chosen.us);
}

std::string headline(const Findings &findings) {
  const std::string where = token_of(findings.layers) + " on " + findings.question.device->name;
  if (findings.parts.empty()) {
    return where + "\n  nobody takes it under these options: " +
           (findings.why_not.empty() ? "no kernel was asked" : findings.why_not) + "\n";
  }
  std::string names;
  int32_t math = POLYCONV_MATH_STRICT;
  double predicted_us = 0;
  for (const Part &part : findings.parts) {
    predicted_us += part.candidate.heuristic_us();
    names += (names.empty() ? "" : " + ") + names_of(part.candidate);
    math = std::max(math, part.candidate.offer.math);
  }
  const double us = findings.us;
  std::string text = where + "\n  " + names + (is_measured(findings) ? "\n  measured " : "\n  about ") + time_text(us);
  text += is_measured(findings) ? " " + findings.provenance.words() + ", predicted " + time_text(predicted_us)
                                : std::string(", estimated");
  if (us > 0) text += formatted(" (%.3g GFLOP/s)", flops_of(findings.layers) / us * 1e-3);
  text += ", " + bytes_text(nothing_to_run(findings.layers) ? 0 : findings.layout.workspace_bytes) + " of workspace, " +
          std::to_string(findings.question.options.policy.threads) + " threads, math " + math_name(math) + "\n";
  if (nothing_to_run(findings.layers)) text += "  the batch is empty: a run has nothing to do\n";
  return text;
}

// "convolves, weights packed as cpu_gemm_f32_16:1 (144 KiB)".
std::string step_words(const StepSketch &step, const std::vector<Part> &parts) {
  if (step.op == POLYCONV_OP_POOL) return "pools";
  if (step.op == POLYCONV_OP_CONVERT) return "converts the layout";
  if (step.op == POLYCONV_OP_GRADIENT) return "goes back through activation and pooling";
  std::string words =
      step.layers.size() > 1 ? formatted("convolves %zu layers in one", step.layers.size()) : "convolves";
  for (const Part &part : parts) {
    if (part.group.first != step.first) continue;
    for (int32_t i = 0; i < part.group.count(); ++i) {
      const std::string format = part.candidate.offer.weights_format[i];
      if (format != POLYCONV_FORMAT_RAW)
        words += ", weights packed as " + format + " (" + bytes_text(part.candidate.offer.weights_bytes[i]) + ")";
    }
  }
  return words;
}

std::string steps_text(const Findings &findings) {
  if (findings.layout.steps.empty()) return "";
  Table table;
  const bool chain = findings.layers.size() > 1;
  for (const StepSketch &step : findings.layout.steps) {
    std::vector<std::string> row = {
        kernel_name(*step.entry, step.config), time_text(step.estimate_us),
        step_words(step, findings.parts) + (is_fallback(*step.entry) ? " (a fallback)" : "")};
    if (chain) row.insert(row.begin(), "layer " + std::to_string(step.first));
    table.add(row);
  }
  return "\nsteps\n" + table.text("  ");
}

std::vector<std::string> row_of(const Candidate &candidate, Yardstick chosen_time) {
  std::string notes = additions_of(candidate);
  if (candidate.offer.math != POLYCONV_MATH_STRICT)
    notes = std::string("math ") + math_name(candidate.offer.math) + (notes.empty() ? "" : ", ") + notes;
  if (chosen_time.measured && !candidate.measured)
    notes = "not measured" + std::string(notes.empty() ? "" : ", ") + notes;
  if (candidate.measured)
    notes = "predicted " + time_text(candidate.heuristic_us()) + (notes.empty() ? "" : ", ") + notes;
  if (candidate.fallback) notes = "fallback" + std::string(notes.empty() ? "" : ", ") + notes;
  return {kernel_name(*candidate.entry, candidate.offer.config), time_text(candidate.estimate_us),
          ratio_text(candidate, chosen_time), bytes_text(candidate.workspace_bytes), notes};
}

// The accepted but for the chosen one.
std::string others_text(const std::vector<Candidate> &candidates, const Candidate *chosen, Yardstick chosen_time,
                        const std::string &title) {
  Table table;
  bool any = false;
  for (const Candidate &candidate : candidates) {
    if (!candidate.accepted()) continue;
    if (chosen != nullptr && candidate.entry == chosen->entry && candidate.offer.config == chosen->offer.config)
      continue;
    table.add(row_of(candidate, chosen_time));
    any = true;
  }
  return any ? "\n" + title + "\n" + table.text("  ") : "";
}

// What options.kernel, or its absence, keeps out.
std::string hidden_text(const std::vector<Candidate> &candidates, Yardstick chosen_time) {
  Table table;
  bool any = false;
  for (const Candidate &candidate : candidates) {
    if (candidate.verdict != Verdict::Hidden) continue;
    table.add({kernel_name(*candidate.entry, candidate.offer.config), time_text(candidate.estimate_us),
               ratio_text(candidate, chosen_time), candidate.offer.reason});
    any = true;
  }
  return any ? "\nhidden\n" + table.text("  ") : "";
}

// Words separated by ", ", in lines of a readable length.
std::string wrapped(const std::string &list, const std::string &indent) {
  constexpr size_t kWidth = 80;
  std::string text, line = indent;
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(", ", begin), list.size());
    const std::string word = list.substr(begin, end - begin) + (end < list.size() ? "," : "");
    if (line.size() > indent.size() && line.size() + 1 + word.size() > kWidth) {
      text += line + "\n";
      line = indent;
    }
    line += (line.size() > indent.size() ? " " : "") + word;
    begin = end + 2;
  }
  return text + line + "\n";
}

// Whether a kernel says that it is for other directions, or for other steps of a plan: true, and of no use to who asks
// about this one. These are the sentences of polyconv's own kernels; those of others stand as they are.
bool is_for_others(const std::string &reason) {
  static const char *const kSentences[] = {"computes the output, not gradients",
                                           "computes the input's gradient alone",
                                           "computes the gradient of weights alone",
                                           "computes weight gradients only",
                                           "computes outputs and input gradients, not weight gradients",
                                           "takes forward convolutions, no gradients",
                                           "only pools",
                                           "only goes back through activation and pooling",
                                           "only copies a tensor into other strides"};
  return std::any_of(std::begin(kSentences), std::end(kSentences),
                     [&](const char *sentence) { return reason == sentence; });
}

// Kernels by reason, so that ten that say the same stand together. Those that are for others are told by their number,
// unless somebody forced kernels and may have meant one of them.
std::string rejected_text(const std::vector<Candidate> &candidates, const std::string &title, bool forced) {
  std::vector<std::pair<std::string, std::string>> reasons; // and who gave them
  std::vector<const KernelEntry *> others;
  for (const Candidate &candidate : candidates) {
    if (candidate.verdict != Verdict::Rejected) continue;
    const std::string reason = candidate.offer.reason;
    if (!forced && is_for_others(reason)) {
      if (std::find(others.begin(), others.end(), candidate.entry) == others.end()) others.push_back(candidate.entry);
      continue;
    }
    const auto found =
        std::find_if(reasons.begin(), reasons.end(), [&](const auto &known) { return known.first == reason; });
    if (found == reasons.end()) {
      reasons.emplace_back(reason, candidate.entry->full_name);
    } else if (found->second.find(candidate.entry->full_name) == std::string::npos) {
      found->second += ", " + candidate.entry->full_name;
    }
  }
  if (reasons.empty() && others.empty()) return "";
  std::string text = "\n" + title + "\n";
  for (const auto &reason : reasons) text += "  " + reason.first + "\n" + wrapped(reason.second, "    ");
  if (!others.empty())
    text += formatted("  %zu %s for other directions, or for other steps of a plan\n", others.size(),
                      others.size() == 1 ? "kernel is" : "kernels are");
  return text;
}

bool forces_kernels(const Findings &findings) {
  return !findings.question.options.kernel.empty();
}

std::string chain_text(const Findings &findings) {
  std::string text = groupings_text(findings) +
                     others_text(findings.whole, chosen_one(findings), yardstick_of(findings),
                                 "other kernels that take all layers in one") +
                     rejected_text(findings.whole, "rejected as one kernel for all layers", forces_kernels(findings));
  for (size_t i = 0; i < findings.per_layer.size(); ++i) {
    const std::vector<Candidate> &candidates = findings.per_layer[i];
    const double best_us = candidates.empty() || !candidates[0].accepted() ? 0 : candidates[0].estimate_us;
    const std::string title = "layer " + std::to_string(i) + " alone, " + format_token(findings.layers[i].problem);
    text += others_text(candidates, nullptr, {best_us, false}, title);
    if (best_us <= 0) text += rejected_text(candidates, title + ", is rejected", forces_kernels(findings));
  }
  return text;
}

} // namespace

std::string formatted(const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

std::string Table::text(const char *indent) const {
  std::vector<size_t> widths;
  for (const auto &row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto &row : rows_) {
    std::string line = indent;
    for (size_t i = 0; i < row.size(); ++i) line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string time_text(double us) {
  if (us < 1) return formatted("%.2g us", us);
  if (us < 9999.5) return formatted("%.4g us", us);
  return us < 9999.5e3 ? formatted("%.4g ms", us * 1e-3) : formatted("%.4g s", us * 1e-6);
}

std::string bytes_text(int64_t bytes) {
  constexpr const char *kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return formatted(value < 99.95 && unit > 0 ? "%.1f %s" : "%.0f %s", value, kUnits[unit]);
}

std::string text_of(const Findings &findings) {
  std::string text = headline(findings) + steps_text(findings);
  if (findings.layers.size() > 1) {
    text += chain_text(findings);
  } else {
    text += others_text(findings.whole, chosen_one(findings), yardstick_of(findings), "other candidates");
    text += hidden_text(findings.whole, yardstick_of(findings));
    text += rejected_text(findings.whole, "rejected", forces_kernels(findings));
  }
  const std::vector<std::string> lines = alternatives(findings);
  text += "\nwhat would change the answer\n";
  for (const std::string &line : lines) text += "  " + line + "\n";
  if (lines.empty()) text += "  nothing: no other option admits a faster kernel\n";
  return text;
}

} // namespace polyconv
