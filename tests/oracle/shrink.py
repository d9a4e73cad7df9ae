# shrink.py - makes a finding small: one change after the other that leaves the same kind of finding.
# SPDX-License-Identifier: Apache-2.0
import time
from dataclasses import replace

from case import DEFAULTS, Case
from problem import Layer


def shrink(judge, case, verdict, seconds=60.0):
    """The smallest case found, and its verdict. judge(case) is a Verdict."""
    deadline, kind = time.monotonic() + seconds, verdict.kind
    if verdict.kernel and not case["kernel"] and len(case.layers) == 1:
        fixed = case.altered(kernel=verdict.kernel.split(" + ")[0])
        if judge(fixed).kind == kind:
            case = fixed
    again = True
    while again and time.monotonic() < deadline:
        again = False
        for smaller in _smaller(case):
            if time.monotonic() > deadline:
                break
            new = judge(smaller)
            if new.kind == kind and (kind != "failed" or new.sentence[:40] == verdict.sentence[:40]):
                case, verdict, again = smaller, new, True
                break
    return case, verdict


def _smaller(case):
    """Cases that say less, the boldest first."""
    if len(case.layers) > 1:
        yield Case(case.layers[1:], case.settings)
        yield Case(case.layers[:-1], case.settings)
    for name, value in case.settings.items():
        if value not in (DEFAULTS[name], "exact") and name not in ("kernel", "edge"):
            yield case.altered(**{name: DEFAULTS[name]})
    if case["mode"] == "random":
        yield case.altered(mode="exact")
    for i, layer in enumerate(case.layers):
        for smaller in _smaller_layers(layer):
            layers = list(case.layers)
            layers[i] = smaller
            yield Case(layers, case.settings)


def _smaller_layers(layer):
    plain = Layer([1])
    for name in ("activation", "pool", "scale", "bias", "flip", "separable", "strides", "zero_points", "out_scale",
                 "out_zero", "residual_zero", "residual_scale", "layouts"):
        default = getattr(plain, name)
        if getattr(layer, name) != default:
            yield replace(layer, **{name: default}, **({"alpha": 0.0} if name == "activation" else {}))
    if layer.residual is not None:
        yield replace(layer, residual=None, residual_scale=1.0, residual_zero=0)
    for which in list(layer.strides):
        yield replace(layer, strides={w: s for w, s in layer.strides.items() if w != which})
    if layer.pad_mode != "zero":
        yield replace(layer, pad_mode="zero", pad_value=0.0)
    if layer.row == "float" and layer.types[0] != "f32":
        yield replace(layer, types=("f32",) * 3)
    if layer.transposed and not any(layer.output_padding):
        yield replace(layer, transposed=False)
    if layer.dims > 1 and layer.pool is None and not layer.strides:
        for axis in range(layer.dims):
            yield replace(layer, **{name: [v for a, v in enumerate(getattr(layer, name)) if a != axis] for name in
                                    ("input_size", "kernel", "stride", "dilation", "pad_begin", "pad_end",
                                     "output_padding")})
    yield from _smaller_numbers(layer)


def _less(value, least):
    return sorted({least, value // 2, value - 1} - {value}) if value > least else []


def _smaller_numbers(layer):
    if layer.groups > 1:
        c, k = layer.in_channels // layer.groups, layer.out_channels // layer.groups
        for groups in _less(layer.groups, 1):
            if groups:
                yield replace(layer, groups=groups, in_channels=c * groups, out_channels=k * groups)
    for name, step in (("batch", 1), ("in_channels", layer.groups), ("out_channels", layer.groups)):
        for value in _less(getattr(layer, name) // step, 1):
            if value:
                yield replace(layer, **{name: value * step})
    for name, least in (("input_size", 1), ("kernel", 1), ("stride", 1), ("dilation", 1), ("pad_begin", 0),
                        ("pad_end", 0), ("output_padding", 0)):
        values = getattr(layer, name)
        for axis, value in enumerate(values):
            for less in _less(value, least):
                yield replace(layer, **{name: values[:axis] + [less] + values[axis + 1:]})
    if layer.pool is not None:
        for name, least in (("window", 1), ("stride", 1), ("pad_begin", 0), ("pad_end", 0)):
            values = getattr(layer.pool, name)
            for axis, value in enumerate(values):
                for less in _less(value, least):
                    pool = replace(layer.pool, **{name: values[:axis] + [less] + values[axis + 1:]})
                    yield replace(layer, pool=pool)
    for which, strides in layer.strides.items():
        for axis, value in enumerate(strides):
            for less in _less(value, 1):
                if less:
                    smaller = strides[:axis] + [less] + strides[axis + 1:]
                    yield replace(layer, strides={**layer.strides, which: smaller})
