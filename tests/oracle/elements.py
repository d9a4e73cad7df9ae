# elements.py - element types: their memory, their roundings, their ends. Values are float64, which holds every type.
# SPDX-License-Identifier: Apache-2.0
import numpy as np

MEMORY = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.uint16, "s32": np.int32, "s8": np.int8,
          "u8": np.uint8, "u16": np.uint16}
BYTES = {name: np.dtype(t).itemsize for name, t in MEMORY.items()}
ROUNDOFF = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
SMALLEST = {"f64": 5e-324, "f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}
LARGEST = {"f64": np.finfo(np.float64).max, "f32": float(np.finfo(np.float32).max), "f16": 65504.0,
           "bf16": float.fromhex("0x1.fep127")}
RANGE = {"s32": (-2**31, 2**31 - 1), "s8": (-128, 127), "u8": (0, 255), "u16": (0, 65535)}


def is_integer(name):
    return name in RANGE


def to_memory(values, name):
    """As elements in memory: integers rounded half to even and saturated, floats to nearest."""
    if is_integer(name):
        low, high = RANGE[name]
        return np.clip(np.rint(np.nan_to_num(values)), low, high).astype(MEMORY[name])
    with np.errstate(over="ignore", invalid="ignore"):
        if name == "bf16":
            return _bf16_bits(np.asarray(values, np.float64).astype(np.float32))
        return np.asarray(values).astype(MEMORY[name])


def from_memory(elements, name):
    if name == "bf16":
        return (elements.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return elements.astype(np.float64)


def rounded(values, name):
    return from_memory(to_memory(values, name), name)


def _bf16_bits(f32):
    bits = np.ascontiguousarray(f32).view(np.uint32)
    nearest = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    quiet = (bits >> 16) | 0x40
    return np.where(np.isnan(f32), quiet, nearest).astype(np.uint16).reshape(np.shape(f32))
