# case.py - one case: problems, options, where its numbers come from; and what becomes of it. A case is one line of text,
# so that it can be run again: TOKEN [TOKEN ...] [name=value ...].
# SPDX-License-Identifier: Apache-2.0
import time
import traceback
from dataclasses import dataclass, field, replace

import numpy as np

import binding as b
import bounds
import elements
import problem as problems
from data import Numbers
from draw import fits, written
from expect import Unknown, expect
from memory import before_first
OTHER_POISON = 0x5A
SLOW = 5.0  # seconds of processor time that planning a small problem may take
DEFAULTS = {"kernel": "", "math": "strict", "determinism": 1, "threads": 1, "save": "none", "mode": "random", "seed": 0,
            "checked": 0, "convolve": 0, "ends": 0, "sibling": 0, "grouping": "", "edge": 0}


@dataclass
class Case:
    layers: list
    settings: dict = field(default_factory=dict)

    def __getitem__(self, name):
        return self.settings.get(name, DEFAULTS[name])

    def text(self):
        words = [layer.token() for layer in self.layers]
        words += [f"{name}={value}" for name, value in self.settings.items() if value != DEFAULTS[name]]
        return " ".join(words)

    def altered(self, **settings):
        return replace(self, settings={**self.settings, **settings})


def parse(library, text):
    layers, settings = [], {}
    for word in text.split():
        name, _, value = word.partition("=")
        if name in DEFAULTS:
            settings[name] = type(DEFAULTS[name])(value)
        else:
            layers.append(problems.from_struct(library.parse(word)))
    return Case(layers, settings)


@dataclass
class Verdict:
    kind: str  # good, refused, skipped; of findings: wrong, failed, memory, bits, slow, token; crash, hang; oracle
    sentence: str = ""
    kernel: str = ""

    @property
    def finding(self):
        return self.kind not in ("good", "refused", "skipped")


class Finding(Exception):
    def __init__(self, kind, sentence):
        super().__init__(sentence)
        self.kind = kind


def tensors_of(case):
    """[(which, layer, is written)] of a run."""
    layers, save = case.layers, case["save"]
    last, direction = len(layers) - 1, layers[0].direction
    result = []
    for i, layer in enumerate(layers):
        writes = written(layer)
        for which in ("input", "weights", "output"):
            if which == "weights" or (which == "input" and i == 0) or (which == "output" and i == last):
                result.append((which, i, which in writes))
        if layer.bias:
            result.append(("bias", i, direction == b.BACKWARD_WEIGHTS))
        result += [(which, i, False) for which, has in (("scale", layer.scale), ("slope", layer.activation == "prelu"),
                                                        ("weights_zero_point", layer.channel_zeros)) if has]
        if layer.residual == "buffer":
            result.append(("residual", i, False) if direction == b.FORWARD else ("residual_gradient", i, True))
        if saves(layer, save):
            result.append((save, i, direction == b.FORWARD))
    return result


def one_output(layer):
    """Which axes have one output of the convolution: their stride is no part of the weight problem."""
    return [size == 1 for size in (layer.input_size if layer.transposed else layer.convolved_size())]


def saves(layer, save):
    if save == "none" or (save == "argmax" and not (layer.pool and layer.pool.kind == "max")):
        return False
    return layer.direction == b.FORWARD or layer.activation != "none" or (layer.pool and layer.pool.kind == "max")


# ---------------------------------------------------------------- one run


class Run:
    def __init__(self, library, memory, case):
        self.library, self.memory, self.case = library, memory, case
        self.structs = [library.parse(layer.token()) for layer in case.layers]
        self.options = library.options(
            math=b.MATHS.index(case["math"]), determinism=case["determinism"], threads=case["threads"],
            save=b.SAVES.index(case["save"]), checked=case["checked"], fallback=2,
            **({"kernel": case["kernel"]} if case["kernel"] else {}),
            **({"grouping": case["grouping"]} if case["grouping"] else {}))
        self.regions, self.views, self.values = {}, {}, [{} for _ in case.layers]
        self.kernel = ""

    def check_tokens(self):
        """The library reads our token as we meant it, and lays tensors out as we do."""
        for layer, struct in zip(self.case.layers, self.structs):
            again = problems.from_struct(struct)
            if again != layer:
                wrong = [n for n in vars(layer) if getattr(again, n) != getattr(layer, n)]
                raise Finding("token", f"{layer.token()} was read with other {', '.join(wrong)}: {again}")
            text = self.library.format(struct)
            if problems.from_struct(self.library.parse(text)) != layer:
                raise Finding("token", f"{layer.token()} was printed as {text}, which is another problem")

    def place(self):
        ends = self.case["ends"]
        for number, (which, i, writes) in enumerate(tensors_of(self.case)):
            layer, name = self.case.layers[i], self.case.layers[i].type_of(which)
            tensor, size = self.library.tensor(self.structs[i], which) or (None, 0)
            if tensor is None:
                raise Finding("failed", f"layer {i} is said to have no {which}")
            shape = layer.shape(which)
            strides = self._strides(layer, which, shape, tensor)
            between = 1 + sum((n - 1) * abs(s) for n, s in zip(shape, strides)) if 0 not in shape else 0
            if size != between * elements.BYTES[name]:
                raise Finding("failed", f"{which} of layer {i} is said to have {size} bytes, not "
                              f"{between * elements.BYTES[name]}")
            region = self.memory.place((which, i), size, bool(ends >> number & 1), elements.BYTES[name])
            self.regions[which, i] = region
            self.views[which, i] = (shape, strides, name)
            if writes:
                continue
            values = self.numbers.values(layer, which)
            if size:
                view = region.elements(shape, strides, name)
                view[...] = elements.to_memory(values, name)
                values = elements.from_memory(view, name)
            self.values[i][which] = values

    @staticmethod
    def _strides(layer, which, shape, tensor):
        if which in problems.VECTORS:
            return [1]
        spatial = list(tensor.stride)[2 + 3 - layer.dims:]
        told = list(tensor.stride)[:2] + spatial
        sizes = list(tensor.size)[:2] + list(tensor.size)[2 + 3 - layer.dims:]
        if which in ("input", "weights", "output"):
            ours = layer.strides_of(which)
            differ = [a for a in range(len(shape)) if shape[a] > 1 and told[a] != ours[a]]
            if sizes != shape or differ:
                raise Finding("failed", f"{which} is said to have sizes {sizes} and strides {told}, not {shape}, {ours}")
            return ours
        return told

    def fill(self, buffers):
        for (which, i), region in self.regions.items():
            shape, strides, name = self.views[which, i]
            pointer = region.address + before_first(shape, strides) * elements.BYTES[name] if region.size else None
            if which == "input":
                buffers.input = pointer
            elif which == "output":
                buffers.output = pointer
            else:
                getattr(buffers, "saved" if which in ("pre", "argmax") else which)[i] = pointer

    # ------------------------------------------------------------ running

    def plan_and_run(self):
        case, began = self.case, time.process_time()
        with self.library.plan(self.structs, self.options) as plan:
            took = time.process_time() - began
            self.kernel = plan.info.kernel.decode()
            if took > SLOW:
                raise Finding("slow", f"planning took {took:.1f} s")
            if case["edge"] and (not all(fits(layer) for layer in case.layers) or
                                 plan.info.workspace_bytes > self.memory.LIMIT):
                return
            self.numbers = Numbers(case.layers, case["mode"], case["seed"])
            self.place()
            tolerances = [bounds.of_plan(layer, plan.info, case["mode"] == "exact" or layer.row == "quantised")
                          for layer in case.layers]
            if case["mode"] == "special" and plan.info.transform:
                raise Unknown("what is not finite spreads over a transform's tile")
            with np.errstate(over="ignore", invalid="ignore"):
                expected = expect(case.layers, self.values, case["save"], tolerances, case["mode"])
            if case["convolve"]:
                self.convolve(expected)
            else:
                self.run(plan, expected)

    def convolve(self, expected):
        buffers = self.library.buffers()
        self.fill(buffers)
        kept = self.keep()
        self.library.convolve(self.structs, self.options, buffers)
        self.compare(expected, kept)

    def run(self, plan, expected):
        buffers, own = self.library.buffers(), []
        self.fill(buffers)
        if self.case.layers[0].direction != b.BACKWARD_WEIGHTS:
            own = self.pack(plan, buffers)
        workspace = self.memory.place("workspace", plan.info.workspace_bytes, True, b.ALIGNMENT)
        buffers.workspace, buffers.workspace_size = workspace.address, workspace.size
        kept = self.keep()
        first = self.run_once(plan, buffers, workspace, own, expected, kept)
        if self.case["determinism"] < 1 or self.case["seed"] % 4:
            return
        for key in expected:  # once more, over other remains
            self.regions[key].poison(OTHER_POISON)
        workspace.poison(OTHER_POISON)
        second = self.run_once(plan, buffers, workspace, own, expected, self.keep())
        for key, bits in first.items():
            if bits != second[key]:
                raise Finding("bits", f"{key[0]} has other bits in the second run")

    def run_once(self, plan, buffers, workspace, own, expected, kept):
        workspace_kept, own_kept = workspace.keep(), [region.keep() for region in own]
        plan.run(buffers)
        inside = ([workspace.size], [1], "u8")
        if (at := workspace.changed(workspace_kept, inside if workspace.size else None)) is not None:
            raise Finding("memory", f"byte {at} was written beside the workspace of {workspace.size} bytes")
        for region, before in zip(own, own_kept):
            if (at := region.changed(before)) is not None:
                raise Finding("memory", f"byte {at} of packed weights of {region.size} bytes was written in a run")
        self.compare(expected, kept)
        return {key: self.regions[key].elements(*self.views[key]).tobytes() for key in expected if self.regions[key].size}

    def pack(self, plan, buffers):
        """Packs what is not raw; then the raw weights are poisoned, as nobody may read them."""
        regions = []
        for i in range(len(self.case.layers)):
            name, size = plan.weights_format(i)
            if name == "raw":
                continue
            packer = self.sibling(i, name, size) or plan
            region = self.memory.place(("packed", i), size, True, b.ALIGNMENT)
            kept = region.keep()
            buffers.packed[i] = packer.pack(i, self.regions["weights", i].address, region.address)
            if packer is not plan:
                plan.weights += packer.weights
                packer.weights = []
                packer.close()
            if (at := region.changed(kept, ([size], [1], "u8"))) is not None:
                raise Finding("memory", f"byte {at} was written beside packed weights of {size} bytes")
            regions.append(region)
            self.regions["weights", i].poison()
        return regions

    def sibling(self, i, name, size):
        """A plan of the same weight problem and format in another size, whose packed weights ours must take."""
        if not self.case["sibling"] or len(self.case.layers) > 1:
            return None
        layer = self.case.layers[i]
        more = self.case["sibling"]
        other = replace(layer, batch=layer.batch + more % 2, strides={}, pool=None, residual=None, residual_scale=1.0,
                        residual_zero=0, input_size=[n + more for n in layer.input_size])
        options = self.library.options(math=self.options.math, threads=self.options.threads,
                                       kernel=self.kernel.split(" + ")[0], fallback=2)
        if "weights" in layer.strides or one_output(layer) != one_output(other):
            return None
        try:
            plan = self.library.plan([self.library.parse(other.token())], options)
        except b.Failed:
            return None
        if plan.weights_format(0) != (name, size):
            plan.close()
            return None
        return plan

    # ------------------------------------------------------------ comparing

    def keep(self):
        return {key: region.keep() for key, region in self.regions.items()}

    def compare(self, expected, kept):
        for key, region in self.regions.items():
            what = f"{key[0]} of layer {key[1]}"
            view = self.views[key] if key in expected and region.size else None
            if (at := region.changed(kept[key], view)) is not None:
                place = "before" if at < 0 else "behind" if at >= region.size else "in"
                gap = " between its elements" if key in expected and place == "in" else ""
                raise Finding("memory", f"byte {at} was written {place} the {what}{gap} ({region.size} bytes)")
        for key, one in expected.items():
            if self.regions[key].size:
                self.compare_one(key, one)

    def compare_one(self, key, one):
        found = elements.from_memory(self.regions[key].elements(*self.views[key]), one.type)
        wrong = bounds.outside(found, one.interval, one.type)
        if one.loose is not None:
            wrong &= ~(one.loose & np.isnan(found))
        if one.window is not None and wrong.any():
            wrong &= ~self.plausible(found, one.window)
        if not wrong.any():
            return
        at = np.unravel_index(int(np.flatnonzero(wrong)[0]), wrong.shape)
        raise Finding("wrong", f"{key[0]}{[int(a) for a in at]} is {found[at]:.9g}; expected "
                      f"{float(one.interval.value[at]):.9g} within {float(one.interval.off()[at]):.3g}; "
                      f"{int(wrong.sum())} of {wrong.size} elements are wrong")

    @staticmethod
    def plausible(found, window):
        """Which argmaxes name a number that may be the greatest."""
        chosen = found.reshape(found.shape[0], found.shape[1], 1, -1)
        if chosen.min() < 0 or chosen.max() >= window.value.shape[2]:
            return np.zeros(found.shape, bool)
        index = chosen.astype(np.int64)
        value = np.take_along_axis(window.value, index, 2) + np.take_along_axis(window.bound, index, 2)
        return (value >= np.nanmax(window.value - window.bound, 2, keepdims=True)).reshape(found.shape)


def run_case(library, memory, case):
    """A Verdict."""
    run = None
    try:
        run = Run(library, memory, case)
        run.check_tokens()
        run.plan_and_run()
        return Verdict("good", "", run.kernel)
    except Finding as finding:
        return Verdict(finding.kind, str(finding), run.kernel if run else "")
    except Unknown as reason:
        return Verdict("skipped", str(reason), run.kernel if run else "")
    except MemoryError as reason:
        return Verdict("skipped", str(reason), run.kernel if run else "")
    except b.Failed as failed:
        refuses = failed.call == "polyconv_plan_create" and failed.status in (b.UNSUPPORTED, b.OUT_OF_MEMORY)
        invalid = case["edge"] and failed.status == b.INVALID_ARGUMENT
        kind = "refused" if refuses or invalid else "failed"
        return Verdict(kind, str(failed), run.kernel if run else "")
    except Exception:  # pylint: disable=broad-except
        lines = traceback.format_exc().strip().splitlines()
        return Verdict("oracle", "the oracle itself failed: " + " | ".join(line.strip() for line in lines[-3:]))
