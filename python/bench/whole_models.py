#!/usr/bin/env python3
"""Whole models through polyconv.torch.enable() and fuse() beside plain PyTorch: time, memory and whether results agree.

    PYTHONPATH=build/python/python [POLYCONV_BACKEND_PATH=/abs/build/cuda/lib/polyconv] python3 python/bench/whole_models.py
        [--models resnet50,unet3d] [--kinds inference,graph,training,fused] [--seconds 540] [--apart [--limit 60]] [--table table.md]
        [--json rows.json]

On CUDA: channels last, f16 by autocast, cudnn.benchmark on, peaks of torch.cuda.max_memory_allocated; `graph` is a replayed CUDA
graph. On the CPU: f32, channels as PyTorch makes them unless --channels-last, no graphs, and peaks of the process's memory above what it
had before the model was there (Linux). Both sides have the same model, weights, input, memory format, autocast and switches, which are
asked of PyTorch and printed; they take turns, each begins its turn with a run that does not count, and the least of the rounds counts.
--quick: narrow models and small pictures, to see that everything runs. Prints a line a row as soon as it is there, then the table in
Markdown; exit code 1 where a row failed. Where a result is further from strict f32 than 1e-2 (CPU: 1e-3) and than twice PyTorch's, each layer
is computed again beside f64: a row fails where one is beyond its bound, and the worst are printed with kernel, error and bound
(layer_errors.py), or where the result is ten times as far."""
# SPDX-License-Identifier: Apache-2.0

import argparse
import contextlib
import copy
import gc
import math
import sys
import time
import traceback

import torch

import polyconv.torch as face
import apart
from layer_errors import BOUND, checked_layers, told
from memory import drop_workspaces, forget_peak, resident, trim
from models import MODELS
from rows import Found, Row

KINDS = ("inference", "graph", "training", "training_graph", "fused", "fused_graph")


class Differs(AssertionError):
    """A result that is not what it should be."""


class Replay:
    """A CUDA graph of some work. It reads the model's own parameters, so that it keeps the work, which has the model: a model that
    goes while its graph is replayed is an illegal memory access as soon as empty_cache() gives its memory back.

    A side stream comes first, and then the capture, as PyTorch's pages have it. cuBLAS takes a workspace (32 MiB on an H100) for each
    stream and keeps it: a graph gets one of its own, and leaves none to the next."""

    def __init__(self, work):
        self.work = work
        torch.cuda.synchronize()  # the weights may be being made
        with torch.cuda.stream(torch.cuda.Stream()):
            work()
        torch.cuda.synchronize()
        drop_workspaces()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.result = work()
        self.peak_mb = torch.cuda.max_memory_allocated() / 1e6  # PyTorch counts what a graph works on while it is captured alone
        drop_workspaces()

    def __call__(self):
        self.graph.replay()
        return self.result


class Bench:
    """One model on one device."""

    def __init__(self, name, options):
        self.name, self.options = name, options
        self.make, self.shape, self.batches, self.training_batch = MODELS[name]
        self.exact, self.truths, self.original = False, {}, None
        self.cuda = options.device.startswith("cuda")
        self.limit = 1e-2 if self.cuda else 1e-3
        if options.quick:
            small = {1: 24, 3: 64, 4: 8}[self.shape[0]]  # volumes, pictures, latents
            self.shape = (self.shape[0], *[small] * (len(self.shape) - 1))
            self.batches, self.training_batch = (1, 2), 2
        if options.batches:
            self.batches, self.training_batch = options.batches, options.batches[-1]

    def memory(self, tensor):
        if not (self.cuda or self.options.channels_last):
            return tensor
        return tensor.to(memory_format=torch.channels_last_3d if len(self.shape) == 4 else torch.channels_last)

    def model(self, training):
        """A new one on the device, each time with the same numbers."""
        if self.original is None:
            self.original = self.first_model()
        net = copy.deepcopy(self.original).to(self.options.device)
        for each in net.modules():
            weight = getattr(each, "weight", None)
            if weight is not None and weight.dim() == len(self.shape) + 1:
                weight.data = self.memory(weight.data)
        return net.train(training)

    def first_model(self):
        """Weights that let signals through: PyTorch's own start lets them die out, and results would say nothing."""
        torch.manual_seed(0)
        net = self.make(0.25 if self.options.quick else 1.0)
        for each in net.modules():
            weight = getattr(each, "weight", None)
            if weight is not None and weight.dim() > 1:
                torch.nn.init.kaiming_normal_(weight, nonlinearity="relu")
        return net

    def input(self, batch):
        x = torch.randn(batch, *self.shape, generator=torch.Generator().manual_seed(1)).to(self.options.device)
        return self.memory(x)

    def autocast(self):
        return torch.autocast("cuda", torch.float16) if self.cuda and not self.exact else contextlib.nullcontext()

    def work(self, net, x, training):
        """What is timed, giving back something to compare."""
        if not training:

            def infer():
                with torch.no_grad(), self.autocast():
                    return net(x)

            return infer
        optimizer = torch.optim.SGD(net.parameters(), 1e-6)

        def step():
            optimizer.zero_grad()
            with self.autocast():
                loss = net(x).float().square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    def synchronize(self):
        if self.cuda:
            torch.cuda.synchronize()

    def timed(self, work, rounds):
        """The least milliseconds of so many rounds."""
        best = math.inf
        for _ in range(rounds):
            self.synchronize()
            if self.cuda:
                start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                start.record()
                work()
                stop.record()
                torch.cuda.synchronize()
                best = min(best, start.elapsed_time(stop))
            else:
                begin = time.perf_counter()
                work()
                best = min(best, (time.perf_counter() - begin) * 1e3)
        return best

    def before(self):
        """What memory counts from: on the CPU what the process has without a model, on CUDA nothing."""
        trim()
        return 0.0 if self.cuda else resident()

    def peak(self, work, before):
        """A result, and the peak of memory in MB of a round; two rounds first, in which plans and workspaces are made."""
        result = None
        for _ in range(3):
            self.synchronize()
            gc.collect()
            if self.cuda:
                drop_workspaces()
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            else:
                trim()
                forget_peak()
            result = work()
        self.synchronize()
        most = torch.cuda.max_memory_allocated() / 1e6 if self.cuda else resident(peak=True) - before
        most = max(most, getattr(work, "peak_mb", 0))
        return result.detach().float().cpu(), most

    def settings(self):
        """What both sides run with, as PyTorch says."""
        net, x = self.model(False), self.input(1)
        weights = [each.weight for each in net.modules() if isinstance(each, torch.nn.modules.conv._ConvNd)]
        memory = torch.channels_last_3d if len(self.shape) == 4 else torch.channels_last
        with self.autocast():
            dtype = (x[:1].flatten(1) @ x[:1].flatten(1).t()).dtype
        return {
            "input": list(x.shape[1:]),
            "computes_in": str(dtype).replace("torch.", ""),
            "channels_last": all(each.is_contiguous(memory_format=memory) for each in (x, *weights)),
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
            "cudnn_allow_tf32": torch.backends.cudnn.allow_tf32,
            "cudnn": torch.backends.cudnn.version() if self.cuda else None,
            "threads": torch.get_num_threads(),
        }

    def rows_by_layer(self, kind, batch):
        """Each layer of a row beside f64. Not in a graph: a capture could not look."""
        training = kind.startswith("training")
        net, x = self.model(training), self.input(batch)
        net = face.fuse(net) if kind.startswith("fused") else net
        work = self.work(net, x, training)
        with checked_layers(net) as rows, contextlib.nullcontext() if kind.startswith("fused") else face.enable():
            work()
        return rows

    def layers_hold(self, kind, batch):
        return all(row.ratio <= BOUND for row in self.rows_by_layer(kind, batch))

    def layer_errors(self, kind, batch):
        """Lines about the layers of a row that failed."""
        try:
            return told(self.rows_by_layer(kind, batch))
        except Exception as error:
            return [f"its layers could not be looked at: {type(error).__name__}: {error}"]

    def truth(self, x, training):
        """What PyTorch computes in strict f32."""
        key = (x.shape[0], training)
        if key not in self.truths:
            cudnn = torch.backends.cudnn
            before, self.exact = (cudnn.allow_tf32, cudnn.benchmark), True
            cudnn.allow_tf32 = cudnn.benchmark = False
            try:
                work = self.work(self.model(training), x, training)
                for _ in range(3):  # steps of training, as in peak()
                    result = work()
                self.truths[key] = result.detach().float().cpu()
            finally:
                (cudnn.allow_tf32, cudnn.benchmark), self.exact = before, False
        return self.truths[key]

    def row(self, kind, batch):
        face.cache_clear()
        training, x = kind.startswith("training"), self.input(batch)
        on = contextlib.nullcontext if kind.startswith("fused") else face.enable
        before = self.before()
        theirs = self.work(self.model(training), x, training)
        if kind.endswith("graph"):
            theirs = Replay(theirs)
        their_result, their_memory = self.peak(theirs, before)
        theirs = None  # memory of one model at a time
        before = self.before()
        net = self.model(training)
        if kind.startswith("fused"):
            net = face.fuse(net)
        ours = self.work(net, x, training)
        with on():
            if kind.endswith("graph"):
                ours = Replay(ours)
            our_result, our_memory = self.peak(ours, before)
        info = face.cache_info()
        theirs = self.work(self.model(training), x, training)
        theirs = Replay(theirs) if kind.endswith("graph") else theirs
        times = [math.inf, math.inf]
        for _ in range(self.options.turns):
            theirs()  # after the others' turn the caches are theirs
            times[0] = min(times[0], self.timed(theirs, self.options.rounds))
            with on():
                ours()
                times[1] = min(times[1], self.timed(ours, self.options.rounds))
        exact = self.truth(x, training)
        far, their_far = (float((each - exact).abs().max() / exact.abs().max().clamp(min=1e-6)) for each in (our_result, their_result))
        limit = max(self.limit, 2 * their_far)
        # f16 scatters from layer to layer, by how much depends on the network: where no layer is at fault, neither are we.
        if not far <= limit and (not far <= 10 * limit or not self.layers_hold(kind, batch)):
            raise Differs(f"the result differs from strict f32 by {far:.1e}, expected at most {limit:.0e} (PyTorch {their_far:.1e})")
        return Row(self.name, kind, batch, *times, their_memory, our_memory, far, info.fallen_forward + info.fallen_backward)


def names_of(text, known, parser, option):
    names = text.split(",")
    for name in names:
        if name not in known:
            parser.error(f"{option} has {name!r}, expected some of {', '.join(known)}")
    return names


def parser():
    made = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    made.add_argument("--models", default=",".join(MODELS))
    made.add_argument("--kinds", default="", help=f"of {', '.join(KINDS)}; default: all that the device has")
    made.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    made.add_argument("--batches", type=lambda text: tuple(map(int, text.split(","))), help="instead of each model's own")
    made.add_argument("--rounds", type=int, default=10, help="timed runs in a turn")
    made.add_argument("--turns", type=int, default=3)
    made.add_argument("--seconds", type=float, default=math.inf, help="begin no row after that time")
    made.add_argument("--channels-last", action="store_true", help="on the CPU; on CUDA always")
    made.add_argument("--packed-bytes", type=int, help="polyconv.torch.cache_limit's bound; 0 packs weights in each call")
    made.add_argument("--quick", action="store_true")
    made.add_argument("--apart", action="store_true", help="each model in a process of its own: one that crashes loses a row")
    made.add_argument("--limit", type=float, default=120, help="with --apart: seconds for a row; one that does not end is ended, and the rest goes on")
    made.add_argument("--table", help="a file for the table, which is printed in any case")
    made.add_argument("--json", help="a file for the rows, the settings of each model and what failed")
    made.add_argument("--turn", help=argparse.SUPPRESS)  # apart.py's
    return made


def measure(bench, kind, batch, found):
    """One row, or what failed."""
    found.begin(bench.name, kind, batch)
    begin = time.monotonic()
    try:
        row = bench.row(kind, batch)
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        lines = [f"{bench.name} {kind} batch {batch}: {type(error).__name__}: {error} ({at.name}:{at.lineno})"]
        if isinstance(error, Differs):
            lines += bench.layer_errors(kind, batch)
        found.fail(lines)
        print("FAIL  " + "\n      ".join(lines), flush=True)
        return
    found.add(row)
    print(
        f"{bench.name:14} {kind:11} batch {batch:3}  {row.theirs_ms:9.3f} / {row.ours_ms:9.3f} ms = {row.ratio:.3f}  "
        f"{row.theirs_mb:7.0f} / {row.ours_mb:7.0f} MB  differs {row.differs:.0e}  left {row.left}  "
        f"[{time.monotonic() - begin:.0f} s]",
        flush=True,
    )
    gc.collect()
    if bench.cuda:
        torch.cuda.empty_cache()


def rows_of(bench, kinds):
    """(kind, batch) of a model's rows, those of its largest batch first: where time is short they say most."""
    first = [(kind, bench.training_batch if kind.startswith("training") else bench.batches[-1]) for kind in kinds]
    rest = [(kind, batch) for batch in reversed(bench.batches[:-1]) for kind in kinds if not kind.startswith("training")]
    return first + rest


def measure_all(models, kinds, options, found):
    begin = time.monotonic()
    for name in models:
        bench = Bench(name, options)
        found.settings[name] = bench.settings()
        print(f"{name}: both sides " + ", ".join(f"{key} {value}" for key, value in found.settings[name].items()), flush=True)
        for kind, batch in rows_of(bench, kinds):
            if time.monotonic() - begin > options.seconds:
                found.left_out += 1
            else:
                measure(bench, kind, batch, found)
    found.save()


def main():
    options = parser().parse_args()
    cuda = options.device.startswith("cuda")
    if options.quick:
        options.rounds, options.turns = 2, 1
    models = names_of(options.models, MODELS, parser(), "--models")
    can = KINDS if cuda else [kind for kind in KINDS if not kind.endswith("graph")]
    kinds = names_of(options.kinds, can, parser(), "--kinds") if options.kinds else can
    where = torch.cuda.get_device_name() if cuda else f"{torch.get_num_threads()} threads"
    title = f"PyTorch {torch.__version__}, {where}, {'f16 autocast' if cuda else 'f32'}{', quick' if options.quick else ''}"
    found = Found(title, options.json)
    torch.backends.cudnn.benchmark = True
    face.cache_limit(packed_bytes=options.packed_bytes)
    if options.apart:
        apart.run(models, kinds, options.seconds, options.limit, sys.argv[1:], found)
    elif options.turn:
        with apart.turn(options.turn, torch.cuda.init if cuda else lambda: None) as options.seconds:
            measure_all(models, kinds, options, found)
    else:
        print(title, flush=True)
        measure_all(models, kinds, options, found)
    if not options.turn:
        print("\n" + found.table())
    if options.table:
        with open(options.table, "w", encoding="utf-8") as file:
            file.write(found.table() + "\n")
    return 1 if found.failed else 0


if __name__ == "__main__":
    sys.exit(main())
