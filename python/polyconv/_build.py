"""From what a call looks like to a plan: made once for each sort of call, and kept by the extension module. Here are the
shapes and defaults of the Python face, and its sentences about bad arguments; what the library checks itself is left to
it."""
# SPDX-License-Identifier: Apache-2.0

from typing import NamedTuple

from . import _core
from ._kinds import dtype_of
from ._layout import describe, in_order, layout_of, places
from ._settings import (
    BACKWARD_DATA,
    BACKWARD_WEIGHTS,
    BIAS,
    FORWARD,
    INPUT,
    OUTPUT,
    RESIDUAL,
    SCALE,
    SLOPE,
    WEIGHTS,
    Settings,
    epilogue,
    numbers,
    paddings,
)
from ._values import flag, real, whole
from .errors import InvalidArgument
from .names import DETERMINISM, MATH, TYPE_NAMES, TYPES, number_of, pad_mode, type_number

_TENSOR_OF = {INPUT: 0, WEIGHTS: 1, BIAS: 2, OUTPUT: 5, RESIDUAL: 4, SCALE: 3, SLOPE: 8}  # POLYCONV_TENSOR_*
_FIELD_OF = {INPUT: "input", WEIGHTS: "weights", OUTPUT: "output"}
ROLES = ("x", "w", "bias", "out", "residual", "scale", "slope")


class Seen(NamedTuple):
    """An array as the extension module saw it."""

    type: int
    shape: tuple
    strides: tuple
    device: int  # of CUDA, -1 for the CPU
    read_only: bool
    object: object


class Builder:
    """One call on its way to a plan."""

    def __init__(self, settings, seen, names):
        self.settings = Settings(*settings)
        self.names = names or ROLES
        self.packed = seen[WEIGHTS] if isinstance(seen[WEIGHTS], _core.Weights) else None
        self.seen = [None if one is None or one is self.packed else Seen(*one) for one in seen]
        self.lead = OUTPUT if self.settings.direction == BACKWARD_DATA else INPUT
        self.written = {FORWARD: OUTPUT, BACKWARD_DATA: INPUT, BACKWARD_WEIGHTS: WEIGHTS}[self.settings.direction]

    def check_arrays(self):
        flag(self.settings.channels_last, "channels_last")
        lead = self.seen[self.lead]
        for role, one in enumerate(self.seen):
            if one is None:
                continue
            if one.type == 0:
                raise InvalidArgument(
                    f"{self.names[role]} has dtype {dtype_of(one.object)}, expected one of {', '.join(TYPES)}"
                )
            if one.device != lead.device:
                where = ["the CPU" if each.device < 0 else f"cuda:{each.device}" for each in (one, lead)]
                raise InvalidArgument(
                    f"{self.names[role]} is on {where[0]} and {self.names[self.lead]} on {where[1]}, expected one device"
                )
        for role in (self.written, BIAS) if self.settings.direction == BACKWARD_WEIGHTS else (self.written,):
            if self.seen[role] is not None and self.seen[role].read_only:
                raise InvalidArgument(f"{self.names[role]} is read-only, expected an array that can be written to")

    def weights_shape(self):
        """K, C/g and the kernel's sizes; of a transposed problem C, K/g and these."""
        if self.packed is not None:
            return list(self.packed.plan.problem(self.packed.layer).tensor(_TENSOR_OF[WEIGHTS])[1][:2]) + list(
                self.packed.plan.problem(self.packed.layer).get("kernel_size")
            )
        seen, shape = self.seen[WEIGHTS], self.settings.shape
        if seen is None:
            if self.settings.direction != BACKWARD_WEIGHTS:
                raise InvalidArgument(f"{self.names[WEIGHTS]} is None, expected an array")
            if not isinstance(shape, (tuple, list)) or not 3 <= len(shape) <= 5:
                raise InvalidArgument(f"shape is {shape!r}, expected that of the weights, 3 to 5 numbers")
            return numbers(shape, len(shape), "shape")
        if self.settings.image:
            if len(seen.shape) != 2:
                raise InvalidArgument(f"{self.names[WEIGHTS]} has shape {seen.shape}, expected rows and columns of a filter")
            return [1, 1, *seen.shape]
        if self.settings.direction == BACKWARD_WEIGHTS and tuple(shape) != tuple(seen.shape):
            raise InvalidArgument(f"{self.names[WEIGHTS]} has shape {seen.shape}, expected shape, {shape}")
        if not 3 <= len(seen.shape) <= 5:
            raise InvalidArgument(
                f"{self.names[WEIGHTS]} has shape {seen.shape}, expected (out channels, in channels / groups, kernel...) "
                "with 1 to 3 kernel sizes"
            )
        return list(seen.shape)

    def sizes_of(self, role, spatial):
        """Batch, channels and spatial sizes of an input or output, its strides, and where its axes are."""
        seen = self.seen[role]
        shape = seen.shape if seen is not None else tuple(self.settings.shape)
        if role == self.written != OUTPUT and tuple(self.settings.shape) != tuple(shape):
            raise InvalidArgument(f"{self.names[role]} has shape {tuple(shape)}, expected shape, {self.settings.shape}")
        allowed = (2, 3) if self.settings.image else (spatial + 1, spatial + 2)
        if len(shape) not in allowed:
            raise InvalidArgument(
                f"{self.names[role] if seen is not None else 'shape'} has {len(shape)} axes, {shape}, expected "
                f"{allowed[1]}, or {allowed[0]} without {'channels' if self.settings.image else 'a batch'}, "
                f"beside weights of {spatial} spatial axes"
            )
        where = places(self.settings, len(shape), spatial)
        strides = in_order(seen.strides, where, 1) if seen is not None else None
        return in_order(shape, where, 1), strides, where

    def channels(self, problem, shape, in_channels):
        groups = whole(self.settings.groups, "groups", 1)
        if self.settings.image:
            problem["groups"] = problem["in_channels"] = problem["out_channels"] = in_channels
            return
        problem["groups"], problem["in_channels"] = groups, in_channels
        have, want = (shape[0], in_channels) if self.settings.transposed else (shape[1] * groups, in_channels)
        if have != want:
            what = "axis 0" if self.settings.transposed else "axis 1 times groups"
            raise InvalidArgument(
                f"{self.names[WEIGHTS]} has shape {tuple(shape)} with groups={groups}: {what} is {have}, expected the "
                f"{want} channels of {self.names[INPUT] if self.seen[INPUT] is not None else 'shape'}"
            )
        problem["out_channels"] = shape[1] * groups if self.settings.transposed else shape[0]

    def types(self, problem):
        lead = self.seen[self.lead].type
        weights = self.seen[WEIGHTS].type if self.seen[WEIGHTS] is not None else lead
        if self.packed is not None:
            weights = self.packed.plan.problem(self.packed.layer).get("weights_type")
        wanted = None if self.settings.dtype is None else type_number(self.settings.dtype)
        given = self.seen[self.written]
        if given is not None and wanted is not None and given.type != wanted:
            raise InvalidArgument(
                f"{self.names[self.written]} is {TYPE_NAMES[given.type]}, expected dtype, {TYPE_NAMES[wanted]}"
            )
        result = given.type if given is not None else wanted
        if self.settings.direction == FORWARD:
            sums = lead in (TYPES["s8"], TYPES["u8"]) and weights in (TYPES["s8"], TYPES["u8"])
            output = result or (TYPES["s32"] if sums else lead)
            problem.update(input_type=lead, weights_type=weights, output_type=output)
        elif self.settings.direction == BACKWARD_DATA:
            problem.update(input_type=result or lead, weights_type=weights, output_type=lead)
        else:
            problem.update(input_type=lead, weights_type=result or lead, output_type=self.seen[OUTPUT].type)

    def problem(self):
        """The fields of the problem but for what is written, and where the axes of the result are."""
        settings, problem = self.settings, {}
        shape = self.weights_shape()
        spatial = len(shape) - 2
        problem.update(direction=settings.direction, transposed=int(bool(settings.transposed)), spatial_dims=spatial)
        problem["kernel_size"] = shape[2:]
        sizes, strides, where = self.sizes_of(INPUT, spatial)
        problem.update(batch=sizes[0], input_size=sizes[2:])
        self.channels(problem, shape, sizes[1])
        self.types(problem)
        problem["stride"] = numbers(settings.stride, spatial, "stride")
        problem["dilation"] = numbers(settings.dilation, spatial, "dilation")
        if settings.transposed:
            problem["output_padding"] = numbers(settings.output_padding, spatial, "output_padding")
            if isinstance(settings.padding, str):
                raise InvalidArgument(f"padding is {settings.padding!r}, expected numbers in a transposed convolution")
        problem["pad_begin"], problem["pad_end"] = paddings(settings.padding, problem, spatial)
        problem["pad_mode"] = pad_mode(settings.padding_mode, "border" if settings.image else "padding_mode")
        problem["pad_value"] = real(settings.pad_value, "border_value" if settings.image else "pad_value")
        problem.update(flip=int(flag(settings.flip, "flip")), separable=int(settings.separable))
        epilogue(problem, settings, self.seen, spatial)
        prefer = settings.channels_last or settings.image
        if strides is not None:
            describe(problem, "input", sizes, strides, prefer)
        self.describe_weights(problem, shape, prefer)
        return problem, where

    def describe_weights(self, problem, shape, prefer):
        if self.seen[WEIGHTS] is None:
            problem["weights_layout"] = problem.get("input_layout", 0) if self.written == WEIGHTS else 0
            if self.packed is not None:
                of = self.packed.plan.problem(self.packed.layer)
                for field in ("weights_layout", "has_weights_strides", "weights_strides"):  # where raw ones lie
                    problem[field] = of.get(field)
            return
        strides = list(self.seen[WEIGHTS].strides)
        if self.settings.image:  # one filter for every channel: no step along K
            problem["has_weights_strides"], problem["weights_strides"] = 1, [0, 1, *strides]
            return
        describe(problem, "weights", shape, strides, problem.get("input_layout") == 1 or prefer)

    def describe_output(self, problem, where):
        """Output in the forward sense: of the shape that follows, where it is given or made."""
        prefer = self.settings.channels_last or self.settings.image
        problem["output_layout"] = problem.get("input_layout", 1 if prefer else 0)
        if self.seen[RESIDUAL] is not None:
            self.follow_residual(problem, where)
        sizes = list(_core.Problem(problem).tensor(_TENSOR_OF[OUTPUT])[1])
        sizes = sizes[:2] + sizes[5 - problem["spatial_dims"] :]
        seen = self.seen[OUTPUT]
        if seen is not None:
            shape = self.shape_in(sizes, where)
            if tuple(seen.shape) != shape:
                raise InvalidArgument(f"{self.names[OUTPUT]} has shape {tuple(seen.shape)}, expected {shape}")
            pooled = self.seen[RESIDUAL] is not None and "pool_kind" in problem  # the residual's layout is the problem's then
            describe(problem, "output", sizes, in_order(seen.strides, where, 1), problem["output_layout"] == 1, pooled)
        return sizes

    def follow_residual(self, problem, where):
        """The result has the residual's strides: the library knows one set for both."""
        seen = self.seen[RESIDUAL]
        sizes = list(_core.Problem(problem).tensor(_TENSOR_OF[RESIDUAL])[1])
        sizes = sizes[:2] + sizes[5 - problem["spatial_dims"] :]
        shape = self.shape_in(sizes, where)
        if tuple(seen.shape) != shape:
            raise InvalidArgument(f"{self.names[RESIDUAL]} has shape {tuple(seen.shape)}, expected {shape}")
        if seen.type != problem["output_type"]:
            raise InvalidArgument(
                f"{self.names[RESIDUAL]} is {TYPE_NAMES[seen.type]}, expected the result's type, "
                f"{TYPE_NAMES[problem['output_type']]}"
            )
        layout = layout_of(sizes, in_order(seen.strides, where, 1), problem["output_layout"] == 1)
        out = self.seen[OUTPUT]
        same = out is not None and "pool_kind" not in problem and out.strides == seen.strides
        if layout is None and not same:
            raise InvalidArgument(
                f"{self.names[RESIDUAL]} has strides {seen.strides}, expected a dense array, or the strides of out"
            )
        if layout is not None:
            problem["output_layout"] = layout
            if out is not None and layout_of(sizes, in_order(out.strides, where, 1), layout == 1) != layout and (
                "pool_kind" not in problem
            ):
                raise InvalidArgument(
                    f"{self.names[RESIDUAL]} has strides {seen.strides}, expected those of out, {out.strides}"
                )

    @staticmethod
    def shape_in(sizes, where):
        """Sizes N, C, spatial... as the axes of an array that keeps them there."""
        shape = [0] * sum(place is not None for place in where)
        for size, place in zip(sizes, where):
            if place is not None:
                shape[place] = size
        return tuple(shape)

    def vectors(self, problem):
        made = _core.Problem(problem)
        for role in (BIAS, SCALE, SLOPE):
            seen = self.seen[role]
            if seen is None:
                continue
            tensor = made.tensor(_TENSOR_OF[role])
            if tensor is None:
                raise InvalidArgument(f"{self.names[role]} is given, expected None: this problem does not have it")
            channels = problem["out_channels"]
            if tuple(seen.shape) != (channels,) or (channels > 1 and seen.strides[0] != 1):
                raise InvalidArgument(
                    f"{self.names[role]} has shape {tuple(seen.shape)} and strides {tuple(seen.strides)}, expected "
                    f"({channels},), one for each output channel, dense"
                )
            if seen.type != tensor[0]:
                raise InvalidArgument(
                    f"{self.names[role]} is {TYPE_NAMES[seen.type]}, expected {TYPE_NAMES[tensor[0]]} beside inputs of "
                    f"{TYPE_NAMES[problem['input_type']]}"
                )
        return made

    def made(self, role, problem, sizes, where):
        """What an array that the call makes looks like: (role, type, dense shape, permutation of its axes or None)."""
        field = _FIELD_OF[role]
        shape = self.shape_in(sizes, where)
        order = list(where)
        if problem.get(field + "_layout") == 1:
            order = [order[0]] + order[2:] + [order[1]]
        order = [place for place in order if place is not None]
        permutation = tuple(order.index(axis) for axis in range(len(shape)))
        if permutation == tuple(range(len(shape))):
            permutation = None
        return (role, problem[field + "_type"], tuple(shape[axis] for axis in order), permutation)

    def options(self):
        settings = self.settings
        options = {
            "math": number_of(MATH, settings.math, "math"),
            "determinism": number_of(DETERMINISM, settings.determinism, "determinism"),
            "threads": whole(settings.threads, "threads"),
        }
        if settings.kernel is not None:
            if not isinstance(settings.kernel, str):
                raise InvalidArgument(f"kernel is {settings.kernel!r}, expected None or a name of kernels, such as 'threads/*'")
            options["kernel"] = settings.kernel
        if self.packed is not None:
            options["kernel"] = self.packed.plan.kernel.split(" + ")[0]
        elif settings.direction != BACKWARD_WEIGHTS:
            options["new_weights"] = True  # nobody tells when an array changes: what can read them raw does
        return options

    def build(self):
        self.check_arrays()
        problem, where = self.problem()
        results = self.results(problem, where)
        lead = self.seen[self.lead]
        device = "cpu" if lead.device < 0 else f"cuda:{lead.device}"
        plan = _core.Plan(device, [self.vectors(problem)], self.options())
        return _core.Entry(plan, results)

    def results(self, problem, where):
        if self.settings.direction == FORWARD:
            sizes = self.describe_output(problem, where)
            return [self.made(OUTPUT, problem, sizes, where)]
        spatial = problem["spatial_dims"]
        if self.settings.direction == BACKWARD_DATA:
            problem.setdefault("input_layout", self.layout_of_gradient(spatial))
            self.describe_output(problem, where)
            sizes = [problem["batch"], problem["in_channels"], *problem["input_size"]]
            return [self.made(INPUT, problem, sizes, where)]
        self.describe_output(problem, where)
        shape = self.weights_shape()
        results = [self.made(WEIGHTS, problem, shape, list(range(len(shape))))]
        if self.settings.bias_gradient:
            kind = TYPES["f64"] if problem["input_type"] == TYPES["f64"] else TYPES["f32"]
            results.append((BIAS, kind, (problem["out_channels"],), None))
        return results

    def layout_of_gradient(self, spatial):
        """The layout of an input's gradient that the call makes: that of the output's gradient."""
        sizes, strides, _ = self.sizes_of(OUTPUT, spatial)
        return layout_of(sizes, strides, self.settings.channels_last) or 0


def build(settings, seen, names):
    """The entry of a call: what the extension module keeps."""
    return Builder(settings, seen, names).build()
