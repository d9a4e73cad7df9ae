// fields.hpp - the fields of a record, once for whoever writes them and whoever reads them again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "result/record.hpp"

namespace polyconv::bench {

// What an empty text says: nothing, or that it is not known, which is null.
enum class FieldText { kAlways, kMayBeUnknown };

// visit(name, member) or visit(name, member, FieldText) for every field of a record, in the order in which they are
// written. What a network's layers are and what was profiled are no fields, but lists beside them.
template <class R, class Visit>
void each_field(R &r, const Visit &visit) {
  visit("problem", r.problem, FieldText::kAlways);
  visit("suite", r.suite);
  visit("name", r.name);
  visit("count", r.count);
  visit("type", r.type, FieldText::kAlways);
  visit("device", r.device, FieldText::kAlways);
  visit("backend", r.backend);
  visit("kernel", r.kernel);
  visit("note", r.note);
  visit("technique", r.technique);
  visit("requested", r.requested, FieldText::kAlways);
  visit("requested_math", r.requested_math, FieldText::kAlways);
  visit("grouping", r.grouping);
  visit("math", r.math);
  visit("threads", r.threads);
  visit("beside", r.beside);
  visit("cache", r.cache, FieldText::kAlways);
  visit("status", r.status, FieldText::kAlways);
  visit("reason", r.reason, FieldText::kAlways);
  visit("fallback", r.fallback);
  visit("median_us", r.median_us);
  visit("median_low_us", r.median_low_us);
  visit("median_high_us", r.median_high_us);
  visit("p95_us", r.p95_us);
  visit("min_us", r.min_us);
  visit("image_us", r.image_us);
  visit("first_us", r.first_us);
  visit("plan_us", r.plan_us);
  visit("pack_us", r.pack_us);
  visit("cold_us", r.cold_us);
  visit("cold_ratio", r.cold_ratio);
  visit("clock", r.clock);
  visit("wall_us", r.wall_us);
  visit("transfers_us", r.transfers_us);
  visit("end_to_end_us", r.end_to_end_us);
  visit("speedup", r.speedup);
  visit("transfers_speedup", r.transfers_speedup);
  visit("estimate_us", r.estimate_us);
  visit("samples", r.samples);
  visit("gflop", r.gflop);
  visit("bytes", r.bytes);
  visit("gflops", r.gflops);
  visit("gbps", r.gbps);
  visit("roofline_pct", r.roofline_pct);
  visit("workspace_bytes", r.workspace_bytes);
  visit("weights_bytes", r.weights_bytes);
  visit("baseline", r.baseline);
  visit("baseline_kernel", r.baseline_kernel);
  visit("baseline_note", r.baseline_note);
  visit("baseline_math", r.baseline_math);
  visit("baseline_reason", r.baseline_reason);
  visit("baseline_us", r.baseline_us);
  visit("ratio", r.ratio);
  visit("baseline_err", r.baseline_err);
  visit("max_abs_err", r.max_abs_err);
  visit("rel_l2_err", r.rel_l2_err);
  visit("bound_pct", r.bound_pct);
  visit("check", r.check, FieldText::kAlways);
  visit("library_version", r.library_version, FieldText::kAlways);
  visit("backend_version", r.backend_version);
  visit("device_name", r.device_name);
  visit("driver", r.driver);
  visit("date", r.date, FieldText::kAlways);
}

} // namespace polyconv::bench
