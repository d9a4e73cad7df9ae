"""Problem, Plan, Weights and Chain: the C API's objects, one to one, for what runs many times or must be looked
at. A Plan runs arrays of any library and checks their shapes; several threads may run one plan at once."""
# SPDX-License-Identifier: Apache-2.0

from typing import NamedTuple

from . import _core, _kinds
from ._settings import numbers
from ._values import MOST, flag, whole
from .errors import InvalidArgument
from .names import (
    DETERMINISM,
    DIRECTIONS,
    FALLBACK,
    LAYOUTS,
    MATH,
    POOLS,
    SAVE,
    TYPE_NAMES,
    activation,
    number_of,
    pad_mode,
    type_number,
)

Weights = _core.Weights
_TENSORS = (
    "input",
    "weights",
    "bias",
    "scale",
    "residual",
    "output",
    "argmax",
    "pre_activation",
    "slope",
    "weights_zero_point",
    "residual_gradient",
)
_ENUMERATIONS = {
    "direction": DIRECTIONS,
    "input_layout": LAYOUTS,
    "weights_layout": LAYOUTS,
    "output_layout": LAYOUTS,
    "pool_kind": POOLS,
}
_PER_AXIS = ("kernel_size", "stride", "dilation", "pad_begin", "pad_end", "output_padding", "pool_window", "pool_stride",
             "pool_pad_begin", "pool_pad_end", "pool_dilation")  # fmt: skip


class TensorInfo(NamedTuple):
    """A tensor of a problem: sizes and strides in elements of the axes N, C, spatial... (K, C/g, kernel...)."""

    dtype: str
    shape: tuple
    strides: tuple
    bytes: int


class Problem:
    """One convolution: Problem('fwd:n1,c64,k64,i56x56,f3x3,p1:nhwc:f16:bias+relu'), or by fields of polyconv.h,
    Problem(input_size=(56, 56), in_channels=64, out_channels=64, kernel_size=3, pad=1, bias=True, activation='relu').
    `dtype`, `layout` and `pad` set several fields at once. repr is the token."""

    __slots__ = ("_core",)

    def __init__(self, token=None, **fields):
        if token is not None:
            if fields:
                raise InvalidArgument(f"token is {token!r} and {', '.join(fields)} given too, expected one or the other")
            self._core = _core.Problem.parse(str(token))
            return
        self._core = _core.Problem(_fields(fields))

    @classmethod
    def _of(cls, core):
        problem = cls.__new__(cls)
        problem._core = core
        return problem

    @property
    def token(self):
        """The canonical token: the same in logs, tuning keys and command lines."""
        return self._core.token()

    def __getattr__(self, name):
        if name.startswith("_") or name not in _core.FIELDS:
            raise AttributeError(f"a Problem has no {name!r}")
        return self._core.get(name)

    def __dir__(self):
        return sorted(set(object.__dir__(self)) | set(_core.FIELDS))

    def tensor(self, name):
        """A tensor of the problem by its name ('input', 'weights', 'bias', 'output', ...); None where it has none."""
        found = self._core.tensor(_TENSORS.index(name) if name in _TENSORS else number_of(dict.fromkeys(_TENSORS), name, "name"))
        if found is None:
            return None
        number, sizes, strides, _, size = found
        first = 5 - self.spatial_dims
        return TensorInfo(TYPE_NAMES.get(number), sizes[:2] + sizes[first:], strides[:2] + strides[first:], size)

    @property
    def flops(self):
        """Multiply-add pairs, each counted as two operations."""
        return self._core.flops()

    def __repr__(self):
        return self.token

    def __eq__(self, other):
        return isinstance(other, Problem) and self.token == other.token

    def __hash__(self):
        return hash(self.token)

    def __reduce__(self):
        return Problem, (self.token,)


def _fields(given):
    """Friendly names and values as the fields of polyconv_problem."""
    fields = dict(given)
    sizes = fields.get("input_size")
    if not isinstance(sizes, (tuple, list)):
        raise InvalidArgument(f"input_size is {sizes!r}, expected 1 to 3 numbers, outermost first")
    fields.setdefault("spatial_dims", len(sizes))
    dtype = fields.pop("dtype", None)
    for name in ("input", "weights", "output"):
        if dtype is not None:
            fields.setdefault(name + "_type", dtype)
        if name + "_type" in fields:
            fields[name + "_type"] = type_number(fields[name + "_type"], name + "_type")
    layout = fields.pop("layout", None)
    if layout is not None:
        for name in ("input_layout", "output_layout"):
            fields.setdefault(name, layout)
    pad = fields.pop("pad", None)
    if pad is not None:
        fields.setdefault("pad_begin", pad)
        fields.setdefault("pad_end", pad)
    for name in _PER_AXIS:
        if name in fields:
            fields[name] = numbers(fields[name], len(sizes), name)
    for name, table in _ENUMERATIONS.items():
        if name in fields:
            fields[name] = number_of(table, fields[name], name)
    if "pad_mode" in fields:
        fields["pad_mode"] = pad_mode(fields["pad_mode"], "pad_mode")
    if "activation" in fields:
        number, alpha = activation(fields["activation"])
        fields["activation"] = number
        fields.setdefault("activation_alpha", alpha)
    for short, name in (("bias", "has_bias"), ("scale", "has_scale"), ("residual", "residual_from")):
        if short in fields:
            fields[name] = int(flag(fields.pop(short), short))
    return {name: int(value) if isinstance(value, bool) else value for name, value in fields.items()}


def problems_of(of):
    """A problem, a token or several of either, as the extension module takes them."""
    several = of if isinstance(of, (list, tuple)) else [of]
    return [(one if isinstance(one, Problem) else Problem(one))._core for one in several]


def options_by_number(options):
    tables = {"math": MATH, "determinism": DETERMINISM, "fallback": FALLBACK, "save": SAVE}
    return {
        name: number_of(tables[name], value, name) if name in tables else value
        for name, value in options.items()
        if value is not None
    }


class Plan:
    """What runs a problem, decided once: Plan(problem, device='cuda', math='tf32', ...). Options are those of
    polyconv_options: kernel, math, determinism, fallback, threads, workspace_limit, tuning_budget_ms, dynamic_weights,
    checked, save, shared_memory_limit; and new_weights, for weights that are new in every run (POLYCONV_WEIGHTS_NEW)."""

    __slots__ = ("_core", "device")

    def __init__(self, problem, device="cpu", **options):
        if not isinstance(device, str):
            raise InvalidArgument(f"device is {device!r}, expected a name, such as 'cpu' or 'cuda:0'")
        self._core = _core.Plan(device, problems_of(problem), options_by_number(options))
        self.device = device

    kernel = property(lambda self: self._core.kernel, doc="Full names of the kernels, in order, joined by ' + '.")
    math = property(lambda self: self._core.math)
    workspace_bytes = property(lambda self: self._core.workspace_bytes)
    estimate_us = property(lambda self: self._core.estimate_us, doc="Predicted; measured after tuning.")
    measured_on = property(lambda self: self._core.measured_on, doc="The day of that measurement, '2026-11-28'; '' of an estimate.")
    measured_elsewhere = property(
        lambda self: self._core.measured_elsewhere, doc="Whether that was on another machine of this kind, as what ships was."
    )
    fallback = property(lambda self: self._core.fallback)
    threads = property(lambda self: self._core.threads)
    problems = property(lambda self: tuple(Problem._of(self._core.problem(i)) for i in range(self._core.layers)))

    def weights_format(self, layer=0):
        """'raw' where weights are taken as they are, else the name of the packed format."""
        return self._core.weights(self._layer(layer))[0]

    def pack(self, w, layer=0, stream=None):
        """Packs an array of weights once; what it returns goes to run, or to conv in the place of w. On CUDA it is packed on `stream`, by
        default the one that w's library works on now, as everywhere here."""
        layer = self._layer(layer)
        stream = _stream_for(w, stream)
        seen = _core.Tensor(_array(w, "w"), "w", stream)
        self._check(seen, "w", "weights", layer)
        return Weights._pack(self._core, layer, seen.pointer, 0, stream)

    def repack(self, weights, w, stream=None):
        """Packs w into weights that are there, of a plan made with dynamic_weights; refused while a run reads them."""
        if not isinstance(weights, Weights):
            raise InvalidArgument(f"weights is a {type(weights).__name__}, expected what Plan.pack gave")
        stream = _stream_for(w, stream)
        seen = _core.Tensor(_array(w, "w"), "w", stream)
        self._check(seen, "w", "weights", weights.layer)
        weights._update(seen.pointer, stream)

    def load(self, path, layer=0, stream=0):
        """Packed weights from a file that Weights.save wrote; those of another format or layer are refused."""
        return Weights._load(self._core, self._layer(layer), path, stream)

    def run(self, x, w, bias=None, *, residual=None, scale=None, slope=None, out=None, stream=None):
        """Runs a forward plan. Of a chain w, bias, residual, scale and slope are lists, one for each layer. Layouts are
        the problem's: arrays are N x C x spatial..., with the strides that it says. On CUDA it runs on `stream`, by default the one that
        x's library works on now."""
        layers = self._core.layers
        first, last = self._core.problem(0), self._core.problem(layers - 1)
        if first.get("direction") != 0:
            raise InvalidArgument(f"the plan is of direction {first.get('direction')}, expected 0, forward")
        stream = _stream_for(x, stream)
        source = _core.Tensor(_array(x, "x"), "x", stream)
        self._check(source, "x", "input", 0)
        kept, buffers = [source], {"input": source.pointer}
        if out is None:
            shape, order, number = _dense(last)
            out = _kinds.empty(shape, number, x, stream)
            if order is not None:
                out = _kinds.permute(out, order)
        elif _core.Tensor(out, "out", stream).read_only:
            raise InvalidArgument("out is read-only, expected an array that can be written to")
        target = _core.Tensor(out, "out", stream)
        self._check(target, "out", "output", layers - 1)
        buffers["output"] = target.pointer
        buffers["weights"], buffers["packed"] = [0] * layers, [None] * layers
        for i, one in enumerate(self._per_layer(w, "w")):
            if isinstance(one, Weights):
                buffers["packed"][i] = one
            elif one is not None:
                self._fill_weights(one, i, stream, buffers, kept)
        vectors = {"bias": bias, "residual": residual, "scale": scale, "slope": slope}
        for name, given in vectors.items():
            pointers = [0] * layers
            for i, one in enumerate(self._per_layer(given, name)):
                if one is not None:
                    seen = _core.Tensor(one, name, stream)
                    self._check(seen, name, name, i)
                    kept.append(seen)
                    pointers[i] = seen.pointer
            buffers[name] = pointers
        if self.workspace_bytes:
            owner, buffers["workspace"] = _kinds.scratch(self.workspace_bytes, x, stream)
            kept.append(owner)
        self._core.run_chain(buffers, stream)
        return out

    __call__ = run

    def _fill_weights(self, array, layer, stream, buffers, kept):
        if self.weights_format(layer) != "raw":
            # For this run alone: in memory that streams know, where the array's library has it.
            owner, address = _kinds.scratch(self._core.weights(layer)[1], array, stream)
            seen = _core.Tensor(array, "w", stream)
            self._check(seen, "w", "weights", layer)
            buffers["packed"][layer] = Weights._pack(self._core, layer, seen.pointer, address, stream)
            kept += [seen, owner]
            return
        seen = _core.Tensor(array, "w", stream)
        self._check(seen, "w", "weights", layer)
        kept.append(seen)
        buffers["weights"][layer] = seen.pointer

    def _per_layer(self, given, name):
        layers = self._core.layers
        if layers == 1 and not isinstance(given, (list, tuple)):
            return [given]
        values = [None] * layers if given is None else list(given)
        if len(values) != layers:
            raise InvalidArgument(f"{name} has {len(values)} entries, expected {layers}, one for each layer")
        return values

    def _layer(self, number):
        if whole(number, "layer") not in range(self._core.layers):
            raise InvalidArgument(f"layer is {number}, expected one below {self._core.layers}")
        return int(number)

    def _check(self, seen, name, tensor, layer):
        problem = Problem._of(self._core.problem(layer))
        want = problem.tensor(tensor)
        if want is None:
            raise InvalidArgument(f"{name} is given, expected None: layer {layer}, {problem}, does not have it")
        shape = want.shape if tensor in ("input", "output", "weights", "residual") else want.shape[1:2]
        strides = want.strides if len(shape) > 1 else want.strides[1:2]
        if TYPE_NAMES.get(seen.type) != want.dtype:
            raise InvalidArgument(f"{name} is {TYPE_NAMES.get(seen.type, 'of another type')}, expected {want.dtype}")
        if seen.shape != shape:
            raise InvalidArgument(f"{name} has shape {seen.shape}, expected {shape}")
        wrong = any(size > 1 and have != step for size, have, step in zip(shape, seen.strides, strides))
        if wrong and 0 not in shape:
            raise InvalidArgument(f"{name} has strides {seen.strides}, expected {strides}, as {problem} says")
        where = f"cuda:{seen.device}" if seen.cuda else "cpu"
        device = "cuda:0" if self.device == "cuda" else self.device
        if where != device:
            raise InvalidArgument(f"{name} is on {where}, expected {device}, the plan's device")

    def __repr__(self):
        return f"Plan({', '.join(map(repr, self.problems))}: {self.kernel})"


def _array(given, name):
    if given is None:
        raise InvalidArgument(f"{name} is None, expected an array")
    return given


def _stream_for(array, given):
    """The stream to work on: the one that is given, else that of the array's library."""
    if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 0):
        raise InvalidArgument(f"stream is {given!r}, expected None or a CUDA stream as a number")
    return _kinds.stream_of(array) if given is None else given


def _dense(problem):
    """(dense shape, permutation or None, type) of a problem's output."""
    number, sizes, strides, _, _ = problem.tensor(5)
    first = 5 - problem.get("spatial_dims")
    sizes, strides = sizes[:2] + sizes[first:], strides[:2] + strides[first:]
    order = sorted(range(len(sizes)), key=lambda axis: (-strides[axis], axis))
    permutation = tuple(order.index(axis) for axis in range(len(sizes)))
    plain = permutation == tuple(range(len(sizes)))
    return tuple(sizes[axis] for axis in order), None if plain else permutation, number


class Chain(Plan):
    """Up to eight layers planned together, each reading what the one before it writes: Chain([problem, problem, ...])."""

    __slots__ = ()

    def __init__(self, problems, device="cpu", **options):
        if not isinstance(problems, (list, tuple)) or not problems:
            raise InvalidArgument(f"problems is {problems!r}, expected a list of problems or tokens")
        super().__init__(list(problems), device, **options)


def tune(problem, budget_ms, device="cpu", **options):
    """A plan whose candidates were measured for so many milliseconds rather than estimated."""
    return Plan(problem, device, tuning_budget_ms=whole(budget_ms, "budget_ms", 0, MOST), **options)
