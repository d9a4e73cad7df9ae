// bench_cli_import.cpp - `polyconv-bench import` and `replay`: what other programs write, as problems.
// SPDX-License-Identifier: Apache-2.0
#include "bench_process.hpp"
#include "onnx_reader/model_writer.hpp"

using namespace polyconv_test;

namespace {

// The lines of the suite that a text becomes, without comments.
std::string imported(const std::string &text, const std::string &ending = ".txt", const std::string &options = "") {
  const TemporaryFile file(text, ending);
  std::istringstream suite(bench("import " + file.path() + " " + options).out);
  std::string lines;
  for (std::string line; std::getline(suite, line);)
    if (line[0] != '#') lines += line + "\n";
  return lines;
}

// A model of one Conv, of an input [N, 3, 9, 9] and weights [4, 3, 3, 3].
std::string model() {
  return ModelWriter()
      .input("x", 1, {-2, 3, 9, 9})
      .constant("w", 1, {4, 3, 3, 3}, std::vector<float>(4 * 27))
      .node("Conv", {"x", "w"}, {"y"}, {attribute("pads", std::vector<int64_t>{1, 1, 1, 1})})
      .output("y")
      .file();
}

} // namespace

TEST_CASE("import: benchdnn's descriptors, whose options hold from line to line") {
  CHECK(imported("--conv --dir=FWD_D --dt=f16 --stag=axb\n"
                 "g2mb4_ic16ih7iw9oc32oh7ow9kh3kw3ph1pw1_n\"res:conv1\"\n") ==
        "fwd:n4,c16,k32,g2,i7x9,f3x3,p1:nhwc:f16 name=res:conv1\n");
  // An axis that is not named is like the one before it, dilation counts from 0, the default batch is 2.
  CHECK(imported("--conv --dir=BWD_WB ic8ih16oc8oh16kh3ph2dh1\n") == "bwd_w:n2,c8,k8,i16x16,f3x3,p2,d2:bias\n");
  // The padding at the end follows from the output: (4 - 1) * 2 + 3 - 8 = 1, none of it at the begin.
  CHECK(imported("--conv --dir=FWD_D mb1ic8ih8oc8oh4kh3sh2ph0\n") == "fwd:n1,c8,k8,i8x8,f3x3,s2,p0/1\n");
  CHECK(imported("--conv --dir=FWD_D mb1ic8iw8oc8ow6kw3\n") == "fwd:n1,c8,k8,i8,f3\n");
  CHECK(imported("--conv --dir=FWD_D --mb=3 mb1ic2id5oc2od5kd3pd1\n") == "fwd:n3,c2,k2,i5x5x5,f3x3x3,p1\n");
  CHECK(imported("--deconv --dir=FWD_D mb1ic8ih4oc8oh8kh4sh2ph1\n") == "tfwd:n1,c8,k8,i4x4,f4x4,s2,p1\n");
  CHECK(imported("--conv --dir=FWD_D --cfg=u8s8f32 mb1ic3ih9oc4oh9kh3ph1\n") ==
        "fwd:n1,c3,k4,i9x9,f3x3,p1:u8-s8-f32\n");
  const TemporaryFile bad("--conv --dir=FWD_D --dt=f16{} mb1ic8iw8oc8ow6kw3\n--dt=f32 mb1ic8iw8oc8ow6kw3\n", ".txt");
  const Outcome outcome = bench("import " + bad.path());
  CHECK(outcome.code == 0);
  CHECK(has(outcome.err, "f16-{}"));
  CHECK(has(outcome.out, "fwd:n1,c8,k8,i8,f3\n"));
}

TEST_CASE("import: calls of MIOpenDriver, with its defaults") {
  CHECK(
      imported(
          "MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver convfp16 -n 8 -c 64 -H 56 -W 28 -k 32 -y 3 -x 5 "
          "-p 1 -q 2 -u 2 -v 1 -l 1 -j 1 -m conv -g 2 -F 1 -t 1 --in_layout NHWC\n") ==
      "fwd:n8,c64,k32,g2,i56x28,f3x5,s2x1,p1x2:nhwc:f16\n");
  CHECK(imported("./bin/MIOpenDriver conv -n 2 -c 8 -k 8 -F 0\n") ==
        "fwd:n2,c8,k8,i32x32,f3x3\nbwd_d:n2,c8,k8,i32x32,f3x3\nbwd_w:n2,c8,k8,i32x32,f3x3\n");
  CHECK(imported("./bin/MIOpenDriver convbfp16 --spatial_dim=3 -n 1 -c 4 --in_d 5 -H 6 -W 7 -k 4 --fil_d 1 -F 2\n") ==
        "bwd_d:n1,c4,k4,i5x6x7,f1x3x3:bf16\n");
  const TemporaryFile bad("./bin/MIOpenDriver conv -n many\n./bin/MIOpenDriver conv -n 1 -F 1\n", ".txt");
  const Outcome outcome = bench("import " + bad.path());
  CHECK(outcome.code == 0);
  CHECK(has(outcome.err, ":1: --batchsize"));
  CHECK(has(outcome.out, "fwd:n1,c3,k32"));
}

TEST_CASE("import: graphs that cudnn-frontend logs") {
  const auto graph = [](const char *tag, const char *inputs, const char *outputs) {
    return std::string(R"([cudnn_frontend] {"context":{"io_data_type":"HALF"},"nodes":[{"dilation":[1,1],"inputs":)") +
           inputs + R"(,"name":"layer","outputs":)" + outputs +
           R"(,"post_padding":[1,1],"pre_padding":[0,1],"stride":[2,2],"tag":")" + tag +
           R"("}],"tensors":{"w":{"data_type":null,"dim":[64,32,3,3]},)"
           R"("x":{"data_type":"HALF","dim":[8,64,56,56],"stride":[200704,1,3584,64]},"y":{"dim":[8,64,28,28],"stride":[50176,1,1792,64]}}})"
           "\n";
  };
  CHECK(imported(graph("CONV_FPROP", R"({"W":"w","X":"x"})", R"({"Y":"y"})")) ==
        "fwd:n8,c64,k64,g2,i56x56,f3x3,s2,p0x1/1:nhwc:f16 name=layer\n");
  CHECK(has(imported(graph("CONV_DGRAD", R"({"W":"w","DY":"y"})", R"({"DX":"x"})")), "bwd_d:n8,c64,k64,g2,i56x56"));
  CHECK(has(imported(graph("CONV_WGRAD", R"({"X":"x","DY":"y"})", R"({"DW":"w"})")), "bwd_w:n8,c64,k64,g2,i56x56"));
  const TemporaryFile missing(graph("CONV_FPROP", R"({"W":"w","X":"none"})", R"({"Y":"y"})"), ".txt");
  const Outcome refused = bench("import " + missing.path());
  CHECK(refused.code == 2);
  CHECK(has(refused.err, "its tensor none is not there"));
  const std::string whole = graph("CONV_FPROP", R"({"W":"w","X":"x"})", R"({"Y":"y"})");
  const TemporaryFile cut(whole.substr(0, whole.size() - 20), ".txt");
  CHECK(has(bench("import " + cut.path()).err, "a graph whose JSON is cut off"));
  const TemporaryFile headless("x \"nodes\" \"tensors\"\n", ".txt"); // a line whose object never begins
  CHECK(has(bench("import " + headless.path()).err, "a graph whose JSON is cut off"));
  const TemporaryFile other(R"({"nodes":3,"tensors":[]})"
                            "\n",
                            ".txt");
  CHECK(has(bench("import " + other.path()).err, "a graph that is none of cudnn-frontend"));
  std::string broken = whole, huge = whole, named = whole;
  const auto replace = [](std::string &text, const std::string &from, const std::string &to) {
    REQUIRE(has(text, from));
    text.replace(text.find(from), from.size(), to);
  };
  replace(broken, R"("stride":[2,2])", R"("stride":[2.5,2])");
  const TemporaryFile fraction(broken, ".txt");
  CHECK(has(bench("import " + fraction.path()).err, "its stride has 2.5; expected whole numbers of 64 bits"));
  replace(huge, "[8,64,56,56]", "[8,64,56,18446744073709551615]");
  const TemporaryFile wrapped(huge, ".txt");
  CHECK(has(bench("import " + wrapped.path()).err, "its size of X has 18446744073709551615; expected whole numbers"));
  replace(named, R"("name":"layer")", R"("name":"two\nlines")");
  CHECK(has(imported(named), "name=two_lines\n"));
}

TEST_CASE("import: layers inside an If, a Loop or a Scan are named by the nodes around them") {
  using polyconv_test::attribute;
  polyconv_test::ModelWriter writer, body;
  body.node("Conv", {"carried", "w"}, {"next"}).output("go").output("next");
  body.input("i", 7, {}).input("go", 9, {}).input("carried", 1, {-1, -1, -1, -1});
  writer.input("x", 1, {1, 3, 9, 9}).input("count", 7, {}).input("go", 9, {}).output("y");
  writer.constant("w", 1, {3, 3, 1, 1}, std::vector<float>(9));
  writer.node("Loop", {"count", "go", "x"}, {"y"}, {attribute("body", body.graph())});
  CHECK(imported(writer.file(), ".onnx").find("name=y/body/next") != std::string::npos);
}

TEST_CASE("import: an ONNX model, and the sizes that it leaves open") {
  CHECK(imported(model(), ".onnx", "--size N=2") == "fwd:n2,c3,k4,i9x9,f3x3,p1 name=y\n");
  CHECK(imported(model(), ".onnx", "--size x@0=5") == "fwd:n5,c3,k4,i9x9,f3x3,p1 name=y\n");
  const TemporaryFile file(model(), ".onnx"), cut(model().substr(0, 60), ".onnx");
  const auto refused = [&](const std::string &words, const std::string &sentence) {
    const Outcome outcome = bench("import " + words);
    CHECK(outcome.code == 2);
    CHECK_MESSAGE(has(outcome.err, sentence), outcome.err);
  };
  refused(file.path(), "--size NAME=N says a size that the model leaves open");
  refused(file.path() + " --size N", "is not NAME=NUMBER");
  refused(file.path() + " --size M=1", "M");
  refused(cut.path(), cut.path());
  refused("/nowhere/model.onnx", "/nowhere/model.onnx");
}

TEST_CASE("what import writes, run reads: names and counts too") {
  const TemporaryFile tokens("fwd:n1,c3,k4,i9x9,f3x3,p1\n# a comment\nfwd:n1,c3,k4,i9x9,f3x3,p1\nnonsense\n", ".txt"),
      suite("", ".txt");
  const Outcome made = bench("import " + tokens.path() + " --out " + suite.path());
  CHECK(made.code == 0);
  CHECK(has(made.err, "1 of 3 lines tell no convolution"));
  CHECK(has(contents(suite.path()), "# 2 layers of"));
  CHECK(has(contents(suite.path()), "fwd:n1,c3,k4,i9x9,f3x3,p1 count=2\n"));
  std::ofstream(suite.path(), std::ios::app) << "fwd:n1,c3,k5,i9x9,f3x3,p1 count=3 name=conv2 # the last\n";
  const std::vector<Json> rows = lines_of(bench("run --suite " + suite.path() + kQuick).out);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("count") == 2);
  CHECK(rows[1].at("count") == 3);
  CHECK(rows[1].at("name") == "conv2");
  std::ofstream(suite.path(), std::ios::app) << "fwd:n1,c3,k5,i9x9,f3x3,p1 count=0\n";
  CHECK(has(bench("run --suite " + suite.path() + kQuick).err, ":5: count must be at least 1"));
  CHECK(has(bench("import " + tokens.path() + " --out /nowhere/suite.txt").err,
            "cannot write the file /nowhere/suite.txt"));
  const TemporaryFile none("nothing\n", ".txt");
  CHECK(has(bench("import " + none.path()).err, "tells no convolution that polyconv could take"));
}

TEST_CASE("replay: each distinct plan of a log once, with how often it was made") {
  const std::string
      line =
          "polyconv: info: plan fwd:n1,c3,k4,i9x9,f3x3,p1 on cpu: reference/convolve@f32, 0.2 us estimated; run: "
          "polyconv-bench run fwd:n1,c3,k4,i9x9,f3x3,p1 --device cpu --kernel 'reference/*' --threads 1",
      lacks = " # without save\n";
  const TemporaryFile log("something else\n" + line + lacks + line + lacks + line + " --math tf32\n", ".log");
  const std::vector<Json> rows = lines_of(bench("replay " + log.path() + kQuick).out);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("count") == 2);
  CHECK(rows[0].at("backend") == "reference");
  CHECK(rows[0].at("threads") == 1);
  CHECK(rows[1].at("requested_math") == "tf32");
  const std::vector<Json> chosen = lines_of(bench("replay " + log.path() + " --choose" + kQuick).out);
  REQUIRE(chosen.size() == 2);
  CHECK(chosen[0].at("requested") == "");
  const TemporaryFile none("nothing\n", ".log"), later(line + " --from-a-later-version\n", ".log"),
      open_quote("polyconv-bench run 'fwd\n", ".log");
  CHECK(bench("replay " + none.path()).code == 2);
  CHECK(has(bench("replay " + none.path()).err, "written with POLYCONV_LOG=info"));
  CHECK(bench("replay " + later.path()).code == 2);
  CHECK(has(bench("replay " + later.path()).err, ":1: the command is none of this version"));
  CHECK(has(bench("replay " + open_quote.path()).err, "a quote has no end"));
}

TEST_CASE("a device without an end is refused before it fills the memory") {
  for (const std::string command : {"import /dev/zero", "compare /dev/urandom /dev/urandom"}) {
    const Outcome outcome = bench(command);
    CHECK(outcome.code == 2);
    CHECK(has(outcome.err, "has more than 256 MiB"));
  }
}
