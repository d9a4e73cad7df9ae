// chain.cpp - what fusing does: the groupings of a chain that were weighed, by time, with the memory traffic
// that they save, and what each fused kernel tells of how it runs.
// SPDX-License-Identifier: Apache-2.0
#include "explain/explain.hpp"
#include "plan/plan.hpp"

#include <algorithm>

namespace polyconv {
namespace {

int64_t inner_outputs(const Part &part) {
  int64_t outputs = 0;
  for (int32_t i = 0; i + 1 < part.group.count(); ++i) {
    const polyconv_tensor &t = part.group.layers[static_cast<size_t>(i)].output;
    outputs += t.size[0] * t.size[1] * t.size[2] * t.size[3] * t.size[4];
  }
  return outputs;
}

std::string time_of(const Grouping &grouping) {
  if (!grouping.failure.empty()) return grouping.failure;
  if (!grouping.measured) return "about " + time_text(grouping.us);
  return "measured " + time_text(grouping.us) + ", predicted " + time_text(grouping.predicted_us());
}

// "computes 1200 outputs (3.1 %) again, 49 blocks of 256 threads, 48 KiB shared, occupancy 50 %".
std::string figures_text(const Part &part) {
  const Figures f = figures_of(part);
  std::vector<std::string> words = {bytes_text(f.saved_bytes) + " saved"};
  if (f.recomputed_outputs > 0)
    words.push_back(formatted("%lld outputs (%.1f %%) computed again", static_cast<long long>(f.recomputed_outputs),
                              100 * static_cast<double>(f.recomputed_outputs) /
                                  static_cast<double>(std::max<int64_t>(inner_outputs(part), 1))));
  if (f.blocks > 0 && f.threads > 0)
    words.push_back(
        formatted("%lld blocks of %d threads", static_cast<long long>(f.blocks), static_cast<int>(f.threads)));
  if (f.shared_bytes > 0) words.push_back(bytes_text(f.shared_bytes) + " shared");
  if (f.occupancy > 0) words.push_back(formatted("occupancy %.0f %%", 100 * static_cast<double>(f.occupancy)));
  if (!f.note.empty()) words.push_back(f.note);
  std::string text;
  for (const std::string &word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// What the fused kernels of all groupings tell, each once.
std::string fused_text(const std::vector<Grouping> &groupings) {
  Table table;
  std::vector<const Part *> told;
  for (const Grouping &grouping : groupings)
    for (const auto &part : grouping.parts) {
      if (part->group.count() < 2 || std::find(told.begin(), told.end(), part.get()) != told.end()) continue;
      told.push_back(part.get());
      const int32_t first = part->group.first;
      table.add(
          {formatted("layers %d to %d", static_cast<int>(first), static_cast<int>(first + part->group.count() - 1)),
           names_of(part->candidate), figures_text(*part)});
    }
  return told.empty() ? "" : "\nfused\n" + table.text("  ");
}

} // namespace

Figures figures_of(const Part &part) {
  const polyconv_offer &offer = part.candidate.offer;
  return {saved_bytes(part), offer.recomputed_outputs, offer.blocks, offer.shared_bytes,
          offer.threads,     offer.occupancy,          offer.note};
}

Figures figures_of(const Grouping &grouping) {
  Figures sum;
  double slowest_us = -1;
  for (const auto &part : grouping.parts) {
    if (part->group.count() < 2) continue;
    Figures own = figures_of(*part);
    own.saved_bytes += sum.saved_bytes;
    own.recomputed_outputs += sum.recomputed_outputs;
    if (part->candidate.estimate_us > slowest_us) {
      slowest_us = part->candidate.estimate_us;
      sum = own;
    } else {
      sum.saved_bytes = own.saved_bytes;
      sum.recomputed_outputs = own.recomputed_outputs;
    }
  }
  return sum;
}

std::string groupings_text(const Findings &findings) {
  if (findings.groupings.empty()) return "";
  const Grouping &chosen = findings.groupings.front();
  Table table;
  for (const Grouping &grouping : findings.groupings) {
    const bool comparable = grouping.measured == chosen.measured && chosen.us > 0;
    const int64_t saved = figures_of(grouping).saved_bytes;
    table.add({grouping.words(), time_of(grouping), comparable ? formatted("%.2fx", grouping.us / chosen.us) : "",
               saved > 0 ? "saves " + bytes_text(saved) : "", grouping.kernels()});
  }
  return "\ngroupings\n" + table.text("  ") + fused_text(findings.groupings);
}

} // namespace polyconv
