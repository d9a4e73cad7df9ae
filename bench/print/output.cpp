// output.cpp - records as a table, Markdown, CSV or JSONL.
// SPDX-License-Identifier: Apache-2.0
#include "print/output.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include "print/config_table.hpp"
#include "result/json.hpp"
#include "system/terminal.hpp"
#include "text/csv.hpp"
#include "text/grid.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

std::string csv_cell(const Value &value) {
  if (const auto *text = std::get_if<std::string>(&value)) return csv_quote(*text);
  if (const auto *real = std::get_if<double>(&value)) return format("%.9g", *real);
  if (const auto *whole = std::get_if<int64_t>(&value)) return std::to_string(*whole);
  if (const auto *flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  return "";
}

std::string show(const std::optional<double> &value, std::string (*shower)(double)) {
  return value ? shower(*value) : "";
}

std::string show_error(double error) {
  return error == 0 ? "0" : format("%.1e", error);
}

bool differ(const std::vector<Record> &records, const std::function<std::string(const Record &)> &what) {
  std::set<std::string> values;
  for (const Record &record : records) values.insert(what(record));
  return values.size() > 1;
}

// What is shown in the kernel's column where none ran.
std::string kernel_cell(const Record &record) {
  if (record.kernel.empty()) return record.requested.empty() ? "-" : "(" + record.requested + ")";
  return record.kernel + (record.fallback && record.layers.empty() ? " (fallback)" : ""); // a network says of which
}

// A chain that has a name needs no line of tokens beside it.
std::string problem_cell(const Record &record) {
  return !record.name.empty() && record.problem.find(" > ") != std::string::npos ? "" : record.problem;
}

// "timed": good as far as anybody looked, but not checked.
std::string result_cell(const Record &record) {
  return record.status == "good" && record.check != "good" ? "timed" : record.status;
}

// Threads of the rows that ran.
bool threads_differ(const std::vector<Record> &records) {
  std::set<int64_t> counts;
  for (const Record &record : records)
    if (record.threads) counts.insert(*record.threads);
  return counts.size() > 1;
}

// The mode asked for, and the one entered where that is a stricter one.
std::string math_cell(const Record &record) {
  const bool other = !record.math.empty() && record.math != record.requested_math;
  return record.requested_math + (other ? " (" + record.math + ")" : "");
}

struct Shown {
  Grid::Column column;
  std::function<std::string(const Record &)> cell;
};

std::vector<Shown> identity_columns(const std::vector<Record> &records) {
  std::vector<Shown> columns;
  if (differ(records, [](const Record &r) { return r.suite; }))
    columns.push_back({{"suite", false, Fit::kHeading}, [](const Record &r) { return r.suite; }});
  columns.push_back({{"layer", false, Fit::kHeading}, [](const Record &r) { return r.name; }});
  columns.push_back({{"problem", false, Fit::kHeading}, problem_cell});
  if (differ(records, [](const Record &r) { return r.device; }))
    columns.push_back({{"device", false}, [](const Record &r) { return r.device; }});
  columns.push_back({{"technique", false}, [](const Record &r) { return r.technique; }});
  columns.push_back({{"kernel", false, Fit::kWrap}, kernel_cell});
  if (differ(records, [](const Record &r) { return r.grouping; }))
    columns.push_back(
        {{"grouping", false}, [](const Record &r) { return r.grouping.empty() ? "(best)" : r.grouping; }});
  if (differ(records, [](const Record &r) { return r.requested_math; }))
    columns.push_back({{"math", false}, math_cell});
  if (threads_differ(records))
    columns.push_back({{"threads", true}, [](const Record &r) { return r.threads ? std::to_string(*r.threads) : ""; }});
  return columns;
}

std::string factor_cell(const std::optional<double> &factor) {
  return factor ? format("%.2fx", *factor) : "";
}

std::vector<Shown> time_columns() {
  return {{{"time", true}, [](const Record &r) { return show(r.median_us, show_time); }},
          {{"an image", true}, [](const Record &r) { return show(r.image_us, show_time); }},
          {{"speed-up", true, Fit::kDrop, 1}, [](const Record &r) { return factor_cell(r.speedup); }},
          {{"best", false}, [](const Record &r) { return r.best ? std::string("<- best") : ""; }}};
}

// How steady the time is, and what a single run takes.
std::vector<Shown> spread_columns() {
  return {{{"p95", true, Fit::kDrop, 4}, [](const Record &r) { return show(r.p95_us, show_time); }},
          {{"wall", true, Fit::kDrop, 5}, [](const Record &r) { return show(r.wall_us, show_time); }}};
}

std::vector<Shown> rate_columns() {
  return {{{"GFLOP/s", true, Fit::kDrop, 1}, [](const Record &r) { return show(r.gflops, show_number); }},
          {{"GB/s", true, Fit::kDrop, 3}, [](const Record &r) { return show(r.gbps, show_number); }},
          {{"roof", true, Fit::kDrop, 2},
           [](const Record &r) { return r.roofline_pct ? format("%.0f%%", *r.roofline_pct) : ""; }}};
}

std::vector<Shown> extra_columns() {
  return {{{"cold", true, Fit::kDrop, 6}, [](const Record &r) { return factor_cell(r.cold_ratio); }},
          {{"transfers", true, Fit::kDrop, 1}, [](const Record &r) { return show(r.transfers_us, show_time); }},
          {{"speed-up", true, Fit::kDrop, 1}, [](const Record &r) { return factor_cell(r.transfers_speedup); }},
          {{"end to end", true, Fit::kDrop, 1}, [](const Record &r) { return show(r.end_to_end_us, show_time); }}};
}

std::string workspace_cell(const Record &r) {
  return r.workspace_bytes && *r.workspace_bytes > 0 ? show_bytes(static_cast<double>(*r.workspace_bytes)) : "";
}

// What comes before the first run.
std::vector<Shown> preparation_columns() {
  return {{{"first", true, Fit::kDrop, 8}, [](const Record &r) { return show(r.first_us, show_time); }},
          {{"plan", true, Fit::kDrop, 8}, [](const Record &r) { return show(r.plan_us, show_time); }},
          {{"pack", true, Fit::kDrop, 9}, [](const Record &r) { return show(r.pack_us, show_time); }}};
}

// The beginning of a note: what follows the semicolon is for those who look closer, in JSON lines.
std::string note_cell(const std::string &note) {
  return note.substr(0, note.find(';'));
}

std::vector<Shown> baseline_columns() {
  return {{{"baseline", false, Fit::kWrap},
           [](const Record &r) { return r.baseline_kernel.empty() ? r.baseline : r.baseline_kernel; }},
          {{"its time", true, Fit::kDrop, 2}, [](const Record &r) { return show(r.baseline_us, show_time); }},
          {{"ratio", true}, [](const Record &r) { return r.ratio ? format("%.2f", *r.ratio) : ""; }},
          {{"error", true, Fit::kDrop, 7},
           [](const Record &r) { return r.baseline_err ? show(r.rel_l2_err, show_error) : ""; }},
          {{"its error", true, Fit::kDrop, 7}, [](const Record &r) { return show(r.baseline_err, show_error); }},
          {{"baseline's note", false, Fit::kBelow}, [](const Record &r) { return note_cell(r.baseline_note); }}};
}

// The reason without the problem, which stands in its own column.
std::string why(const Record &record) {
  if (record.reason.empty()) return record.baseline_reason.empty() ? "" : "baseline " + record.baseline_reason;
  const std::string repeated = " takes " + record.problem + ": ";
  const size_t at = record.reason.find(repeated);
  const bool begins = at != std::string::npos && record.reason.rfind("no kernel on ", 0) == 0;
  return begins ? record.reason.substr(at + repeated.size()) : record.reason;
}

std::vector<Shown> columns_of(const std::vector<Record> &records, View view) {
  std::vector<Shown> shown = identity_columns(records);
  const auto append = [&](const std::vector<Shown> &more) { shown.insert(shown.end(), more.begin(), more.end()); };
  const bool compared =
      std::any_of(records.begin(), records.end(), [](const Record &r) { return !r.baseline.empty(); });
  if (view != View::kChecks) {
    append(time_columns());
    if (view == View::kTimes) append(spread_columns());
    append(rate_columns());
    append(extra_columns());
    // A line that says everything is too long to read.
    if (compared)
      append(baseline_columns());
    else if (view == View::kTimes)
      append(preparation_columns());
    if (!compared) shown.push_back({{"workspace", true, Fit::kDrop, 7}, workspace_cell});
  }
  shown.push_back({{"note", false, Fit::kBelow}, [](const Record &r) { return note_cell(r.note); }});
  shown.push_back({{"result", false}, view == View::kChecks ? [](const Record &r) { return r.status; } : result_cell});
  if (view == View::kChecks) {
    shown.push_back(
        {{"max abs err", true, Fit::kDrop, 2}, [](const Record &r) { return show(r.max_abs_err, show_error); }});
    shown.push_back(
        {{"rel l2 err", true, Fit::kDrop, 1}, [](const Record &r) { return show(r.rel_l2_err, show_error); }});
  }
  shown.push_back({{"why", false, Fit::kBelow}, why});
  return shown;
}

Grid grid_of(const std::vector<Record> &records, View view) {
  const std::vector<Shown> shown = columns_of(records, view);
  std::vector<Grid::Column> columns;
  columns.reserve(shown.size());
  for (const Shown &one : shown) columns.push_back(one.column);
  Grid grid(columns);
  const Record *above = nullptr;
  for (const Record &record : records) {
    std::vector<std::string> cells;
    // A problem stands once above its kernels.
    const bool repeated = above && above->suite == record.suite && above->problem == record.problem;
    for (const Shown &one : shown) {
      const bool identity = one.column.title == "suite" || one.column.title == "layer" || one.column.title == "problem";
      cells.push_back(repeated && identity ? "" : one.cell(record));
    }
    grid.add(cells, is_failure(record.status) ? Tone::kBad : Tone::kPlain);
    above = &record;
  }
  return grid;
}

// Of one record, with a line above that says of which.
std::string profile_text(const Record &record, bool markdown, size_t width) {
  Grid grid({{"what", false},
             {"", false, Fit::kWrap},
             {"host", true},
             {"device", true},
             {"bytes", true, Fit::kDrop, 2},
             {"GB/s", true, Fit::kDrop, 1}});
  for (const ProfileLine &line : record.profile) {
    const std::optional<double> time = line.device_us ? line.device_us : line.host_us;
    const std::optional<double> rate = line.bytes && time && *time > 0
                                           ? std::optional<double>(static_cast<double>(*line.bytes) * 1e-3 / *time)
                                           : std::nullopt;
    grid.add({line.kind, line.name, show(line.host_us, show_time), show(line.device_us, show_time),
              line.bytes ? show_bytes(static_cast<double>(*line.bytes)) : "", show(rate, show_number)});
  }
  return "\n" + wrapped(record.problem + " on " + record.device + ", " + record.kernel + ":", width) + "\n\n" +
         (markdown ? grid.markdown() : grid.text(width, nullptr));
}

} // namespace

std::string output_format(const std::string &asked, const std::string &file) {
  if (!asked.empty()) return asked;
  const auto ends = [&](const std::string &ending) {
    return file.size() > ending.size() && file.compare(file.size() - ending.size(), ending.size(), ending) == 0;
  };
  return ends(".jsonl") ? "jsonl" : ends(".csv") ? "csv" : ends(".json") ? "json" : ends(".md") ? "markdown" : "table";
}

void RecordWriter::add(const Record &record) {
  if (format_ == "jsonl") {
    out_ << json_line(record) << std::endl;
  } else if (format_ == "csv") {
    std::vector<std::string> names, cells;
    for (const Field &field : fields_of(record)) {
      names.emplace_back(field.name);
      cells.push_back(csv_cell(field.value));
    }
    if (!header_) out_ << join(names, ",") << "\n";
    header_ = true;
    out_ << join(cells, ",") << std::endl;
  } else {
    records_.push_back(record);
  }
}

void RecordWriter::finish() {
  if (!records_.empty()) {
    const bool markdown = format_ == "markdown";
    const Grid grid = grid_of(view_ == View::kConfigs ? ordered_by_config(records_) : records_, view_);
    std::vector<std::string> left_out;
    out_ << wrapped(caption(records_, view_), width_) << "\n\n"
         << (markdown ? grid.markdown() : grid.text(width_, &left_out, coloured_));
    if (!left_out.empty())
      out_ << "\n"
           << wrapped(format("No room in %zu columns for: ", width_) + join(left_out, ", ") +
                          ". A wider terminal, '| cat' or '-o csv' has all.",
                      width_)
           << "\n";
    for (const Record &record : records_)
      if (!record.profile.empty()) out_ << profile_text(record, markdown, markdown ? 0 : width_);
  }
  out_.flush();
}

std::string caption(const std::vector<Record> &records, View view) {
  const Record &first = records.front();
  std::vector<std::string> parts{"polyconv " + first.library_version, first.date};
  if (!differ(records, [](const Record &r) { return r.device; }))
    parts.push_back(trim(first.device + " " + first.device_name));
  const auto ran = std::find_if(records.begin(), records.end(), [](const Record &r) { return r.threads.has_value(); });
  if (ran != records.end() && !threads_differ(records))
    parts.push_back(format("%lld threads", static_cast<long long>(*ran->threads)));
  if (!differ(records, [](const Record &r) { return r.requested_math; }))
    parts.push_back("math " + first.requested_math);
  if (view != View::kChecks && first.beside > 0)
    parts.push_back(format("busy threads beside: %lld", static_cast<long long>(first.beside)));
  if (view != View::kChecks) parts.push_back(first.cache + " cache");
  const auto timed = std::find_if(records.begin(), records.end(), [](const Record &r) { return r.median_us; });
  if (view != View::kChecks && timed != records.end() && timed->clock != "wall" &&
      std::all_of(timed, records.end(), [&](const Record &r) { return !r.median_us || r.clock == timed->clock; }))
    parts.emplace_back(timed->clock == "graph" ? "timed in graphs" : "timed by events");
  return join(parts, ", ");
}

} // namespace polyconv::bench
