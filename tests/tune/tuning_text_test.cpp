// tuning_text_test.cpp - the lines of the tuning database: what is written is read again, damage is skipped and
// counted, and what a later version wrote is not touched. It is internal, so its sources are compiled in here.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "../../lib/base/status.cpp"
#include "../../lib/token/text.cpp"
#include "../../lib/tune/text.cpp"

using namespace polyconv;

namespace {

const char *const kHead = "# polyconv tuning 1\n";
const char *const kLine = "fwd:n1\tmath=strict\tcpu\tthreads/dense@avx2\tabc\t12.5\t0.25\t64\t2026-11-28\n";

struct ReadBack {
  TuningTable table;
  int64_t skipped = 0;
  TuningText kind;

  explicit ReadBack(const std::string &text) { kind = read_tuning_text(text, &table, &skipped); }
};

} // namespace

TEST_CASE("what is written is read again, to the last digit") {
  TuningTable table;
  table["fwd:n1\tmath=strict\tcpu"]["threads/dense@avx2"] = {"abc", 0.1, 1e-3, 64, "2026-11-28"};
  table["fwd:n1\tmath=strict\tcpu"]["a/b@c + a/d@e"] = {"abc+def", 123456.789, 0, int64_t{1} << 40, "1999-01-02"};
  const std::string text = tuning_text(table);
  const ReadBack back(text);
  CHECK(back.kind == TuningText::Read);
  CHECK(back.skipped == 0);
  CHECK(tuning_text(back.table) == text);
  const Measurement &measured = back.table.begin()->second.at("a/b@c + a/d@e");
  CHECK(measured.us == 123456.789);
  CHECK(measured.workspace_bytes == int64_t{1} << 40);
}

TEST_CASE("wherever a file is torn, the rest holds") {
  const std::string whole = std::string(kHead) + kLine;
  for (size_t length = std::string(kHead).size() + 1; length + 1 < whole.size(); ++length) {
    CAPTURE(length);
    const ReadBack torn(whole.substr(0, length) + "\n" + kLine);
    CHECK(torn.kind == TuningText::Read);
    CHECK(torn.skipped == 1);
    CHECK(torn.table.size() == 1);
  }
}

TEST_CASE("values that no measurement has are skipped") {
  for (const char *tail :
       {"-1\t0\t0\t2026-11-28", "0\t0\t0\t2026-11-28", "nan\t0\t0\t2026-11-28", "inf\t0\t0\t2026-11-28",
        "1\t-1\t0\t2026-11-28", "1\t0\t-5\t2026-11-28", "1\t0\t0\t2026/11/28", "1\t0\t0\tyesterday",
        "1\t0\t0\t2026-11-28\tmore", "1,5\t0\t0\t2026-11-28", "1\t0\t99999999999999999999\t2026-11-28"}) {
    CAPTURE(std::string(tail));
    const ReadBack read(std::string(kHead) + "t\tc\td\tk@x\tv\t" + tail + "\n");
    CHECK(read.skipped == 1);
    CHECK(read.table.empty());
  }
}

TEST_CASE("files put one behind the other are one, and the later line holds") {
  std::string later = kLine;
  later.replace(later.find("12.5"), 4, "11.5");
  const ReadBack both(std::string(kHead) + kLine + kHead + later);
  CHECK(both.skipped == 0);
  CHECK(both.table.at("fwd:n1\tmath=strict\tcpu").at("threads/dense@avx2").us == 11.5);
}

TEST_CASE("lines are found by key wherever they stand, and read as blocks") {
  const auto line = [](const char *token, const char *kernel, const char *us) {
    return std::string(token) + "\tc\td\t" + kernel + "\tv\t" + us + "\t0\t0\t2026-11-28\n";
  };
  const std::string text = kHead + line("a", "k@1", "1") + line("a", "k@2", "2") + line("b", "k@1", "3") + "torn\n" +
                           line("a", "k@3", "4") + line("a", "k@1", "5") + line("a", "k@4", "none");
  TuningLines lines;
  int64_t skipped = 0;
  CHECK(find_tuning_lines(text, &lines, &skipped) == TuningText::Read);
  CHECK(skipped == 1);
  REQUIRE(lines.size() == 2);
  CHECK(lines.at("a\tc\td").size() == 2);
  Measurements a;
  read_tuning_lines(lines.at("a\tc\td"), &a, &skipped);
  CHECK(skipped == 2);
  REQUIRE(a.size() == 3);
  CHECK(a.at("k@1").us == 5);
  CHECK(a.at("k@3").us == 4);
}

TEST_CASE("newer and foreign files are told apart from damage") {
  CHECK(ReadBack("").kind == TuningText::Read);
  CHECK(ReadBack("# polyconv tuning 2\n").kind == TuningText::Newer);
  const ReadBack newer(std::string(kHead) + kLine + "# polyconv tuning 3\n");
  CHECK(newer.kind == TuningText::Newer);
  CHECK(newer.table.empty());
  for (const char *text : {"\n", "# polyconv tuning\n", "# polyconv tuning 0\n", "# polyconv tuning 1x\n", "diary"})
    CHECK(ReadBack(text).kind == TuningText::Foreign);
}

TEST_CASE("days") {
  CHECK(date_text(0) == "1970-01-01");
  CHECK(date_text(951782400) == "2000-02-29");
  CHECK(date_text(1735689599) == "2024-12-31");
  CHECK(date_text(1795823999) == "2026-11-27");
  CHECK(date_text(1795824000) == "2026-11-28");
}

TEST_CASE("fields hold no separators, and are never empty") {
  CHECK(tuning_field("a\tb\nc") == "a b c");
  CHECK(tuning_field("") == "-");
}
