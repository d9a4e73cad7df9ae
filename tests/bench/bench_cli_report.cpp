// bench_cli_report.cpp - `polyconv-bench report`: what its page and its Markdown say first, and what becomes of files
// that cannot be read or written. How the page looks is report_browser.py's.
// SPDX-License-Identifier: Apache-2.0
#include "bench_process.hpp"

namespace {

Json row_of(const char *problem, double us, double ratio) {
  return {{"problem", problem},
          {"suite", "s"},
          {"type", "f32"},
          {"device", "cpu"},
          {"status", "good"},
          {"median_us", us},
          {"kernel", "a/dense@b"},
          {"baseline", "onednn"},
          {"ratio", ratio},
          {"baseline_us", us * ratio},
          {"device_name", "machine <1>"},
          {"library_version", "0.1.0"},
          {"date", "2026-11-28T09:00:00Z"}};
}

std::string lines(const std::vector<Json> &rows) {
  std::string text;
  for (const Json &row : rows) text += row.dump() + "\n";
  return text;
}

size_t place(const std::string &text, const std::string &words) {
  return text.find(words);
}

} // namespace

TEST_CASE(
    "report: what loses most time to its baseline comes first, with all its occurrences, and failures before it") {
  Json small = row_of("fwd:n1,c1,k1,i8x8,f1x1", 100, 0.5), often = row_of("fwd:n1,c2,k2,i8x8,f1x1", 100, 0.75),
       failed = row_of("fwd:n1,c3,k3,i8x8,f1x1", 1, 1);
  often["count"] = 10; // 10 * 25 us are more than 50 us
  failed["status"] = "wrong", failed["reason"] = "element | is 1";
  const TemporaryFile results(lines({small, row_of("fwd:n1,c4,k4,i8x8,f1x1", 1e6, 1.5), often, failed}), ".jsonl");
  const std::string text = bench("report " + results.path() + " --format markdown").out;
  CHECK(has(text, "1. `fwd:n1,c3,k3,i8x8,f1x1` wrong"));
  CHECK(has(text, "2. `fwd:n1,c2,k2,i8x8,f1x1` 0.75 of onednn: 100 us instead of 75.0 us, 10 times (250 us"));
  CHECK(has(text, "3. `fwd:n1,c1,k1,i8x8,f1x1` 0.50 of onednn"));
  CHECK(!has(text, "4. "));
  often["count"] = 1e300; // no number of layers
  const TemporaryFile odd(lines({often}), ".jsonl");
  CHECK(has(bench("report " + odd.path() + " --format markdown").out, "instead of 75.0 us (25.0 us"));
  const std::string page = bench("report " + results.path()).out;
  CHECK(place(page, "data-r=\"3\"") < place(page, "data-r=\"2\""));
  CHECK(place(page, "data-r=\"2\"") < place(page, "data-r=\"0\""));
  CHECK(has(page, "polyconv on machine &lt;1&gt;"));
  CHECK(!has(page, "machine <1>\n"));
}

TEST_CASE("report: without a baseline the roof tells where to look, and without that the time") {
  Json roof = row_of("fwd:n1,c1,k1,i8x8,f1x1", 100, 1), none = row_of("fwd:n1,c2,k2,i8x8,f1x1", 300, 1);
  for (Json *row : {&roof, &none}) row->erase("baseline"), row->erase("ratio"), row->erase("baseline_us");
  const TemporaryFile timed(lines({roof, none}), ".jsonl");
  const std::string by_time = bench("report " + timed.path() + " --format markdown").out;
  CHECK(has(by_time, "By time alone"));
  CHECK(has(by_time, "1. `fwd:n1,c2,k2,i8x8,f1x1` 300 us"));
  roof["roofline_pct"] = 10;
  none["roofline_pct"] = 90;
  const TemporaryFile roofed(lines({none, roof}), ".jsonl");
  const std::string by_roof = bench("report " + roofed.path() + " --format markdown").out;
  CHECK(has(by_roof, "no row has a baseline"));
  CHECK(has(by_roof, "1. `fwd:n1,c1,k1,i8x8,f1x1` 10 % of the roof: 100 us (90.0 us, 22.5 % of all time)"));
}

TEST_CASE("report: a layer of two networks stands in both") {
  Json first = row_of("fwd:n1,c1,k1,i8x8,f1x1", 100, 0.5), second = first;
  first["suite"] = "resnet50", first["name"] = "conv1", second["suite"] = "vgg16", second["name"] = "conv2";
  const TemporaryFile results(lines({first, second}), ".jsonl");
  const std::string text = bench("report " + results.path() + " --format markdown").out;
  CHECK(has(text, "conv1 `fwd"));
  CHECK(has(text, "conv2 `fwd"));
}

TEST_CASE("report: what changed since an earlier result, with its pictures as files") {
  Json before = row_of("fwd:n1,c1,k1,i8x8,f1x1", 100, 1), after = row_of("fwd:n1,c1,k1,i8x8,f1x1", 150, 1);
  const TemporaryFile old_file(lines({before}), ".jsonl"), new_file(lines({after}), ".jsonl"), page("", ".html"),
      folder("", ".pictures");
  std::filesystem::remove(folder.path());
  const Outcome done = bench("report " + new_file.path() + " --against " + old_file.path() + " -o " + page.path() +
                             " --pictures " + folder.path());
  CHECK(done.code == 0);
  CHECK(done.out.empty());
  CHECK(has(contents(page.path()), "geometric mean 1.500; 1 slower and 0 faster beyond the noise"));
  CHECK(has(contents(folder.path() + "/difference.svg"), "<svg xmlns"));
  std::filesystem::remove_all(folder.path());

  after["device_name"] = "another";
  const TemporaryFile other(lines({after}), ".jsonl");
  CHECK(has(bench("report " + other.path() + " --format markdown --against " + old_file.path()).err,
            "--against was measured on another device: machine <1>, not another"));
}

TEST_CASE("report: files that cannot be read or written are told in one sentence, and nothing is lost") {
  const TemporaryFile results(lines({row_of("fwd:n1,c1,k1,i8x8,f1x1", 100, 0.5)}), ".jsonl");
  const auto refused = [&](const std::string &options, const std::string &words) {
    const Outcome done = bench("report " + options);
    CHECK(done.code == 2);
    CHECK_MESSAGE(has(done.err, words), done.err);
    CHECK(std::count(done.err.begin(), done.err.end(), '\n') == 1);
    CHECK(done.out.empty());
  };
  refused("/nowhere/results.jsonl", "/nowhere/results.jsonl");
  refused(results.path() + " -o /nowhere/page.html",
          "cannot write the file /nowhere/page.html: No such file or directory");
  refused(results.path() + " -o page.pdf", "ends in .pdf; expected .html or .md");
  refused(results.path() + " --pictures /dev/null/pictures", "cannot make the folder");
  const TemporaryFile cut(lines({row_of("p", 1, 1)}) + "{\"problem\":\"fwd", ".jsonl");
  const Outcome whole = bench("report " + cut.path() + " --format markdown");
  CHECK(whole.code == 0);
  CHECK(has(whole.err, ":2: the last line is cut off; the 1 rows before it are used"));
  if (std::filesystem::exists("/dev/full")) {
    refused(results.path() + " -o /dev/full --format html", "cannot write the file /dev/full: No space left on device");
    CHECK(bench("report " + results.path() + " >/dev/full; exit $?", "").code != 0);
  }
}

TEST_CASE("a file that cannot be written whole stays as it was") {
  const TemporaryFile results(lines({row_of("fwd:n1,c1,k1,i8x8,f1x1", 100, 0.5)}), ".jsonl"), page("old", ".html");
  // The file beside it, in which the page is written first, is a folder: as good as a full disk.
  std::filesystem::create_directory(page.path() + ".new");
  CHECK(bench("report " + results.path() + " -o " + page.path()).code == 2);
  CHECK(contents(page.path()) == "old");
  std::filesystem::remove(page.path() + ".new");
  CHECK(bench("report " + results.path() + " -o " + page.path()).code == 0);
  CHECK(has(contents(page.path()), "</html>"));
  CHECK(!std::filesystem::exists(page.path() + ".new"));
}
