"""The names of polyconv.h's enumerations, as the problem token spells them, and what they are in other libraries."""
# SPDX-License-Identifier: Apache-2.0

from ._values import real
from .errors import InvalidArgument

TYPES = {"f64": 1, "f32": 2, "f16": 3, "bf16": 4, "s32": 5, "s8": 6, "u8": 7, "u16": 8}
TYPE_NAMES = {number: name for name, number in TYPES.items()}
NUMPY_NAMES = ["", "float64", "float32", "float16", "bfloat16", "int32", "int8", "uint8", "uint16"]  # by number
_SYNONYMS = {name: number for number, name in enumerate(NUMPY_NAMES) if name}
_SYNONYMS.update(double=1, float=2, half=3)

DIRECTIONS = {"fwd": 0, "bwd_d": 1, "bwd_w": 2}
LAYOUTS = {"channels_first": 0, "channels_last": 1}
PAD_MODES = {"zero": 0, "constant": 1, "reflect": 2, "symmetric": 3, "replicate": 4, "circular": 5}
_PAD_SYNONYMS = {"zeros": 0, "edge": 4, "wrap": 5, "nearest": 4}
ACTIVATIONS = {
    "none": 0,
    "relu": 1,
    "clipped_relu": 2,
    "leaky_relu": 3,
    "tanh": 4,
    "sigmoid": 5,
    "gelu": 6,
    "silu": 7,
    "hard_swish": 8,
    "elu": 9,
    "gelu_tanh": 10,
    "prelu": 11,
}
_ALPHA = {"clipped_relu": 6.0, "leaky_relu": 0.01, "elu": 1.0}  # PyTorch's defaults
POOLS = {"none": 0, "max": 1, "average": 2, "avg": 2}
MATH = {"strict": 0, "fp32_emulated": 1, "tf32": 2, "fast": 3}
DETERMINISM = {"none": 0, "run": 1, "invariant": 2, "identical": 3}
FALLBACK = {"warn": 0, "error": 1, "allow": 2}
SAVE = {"none": 0, "argmax": 1, "pre_activation": 2}


def number_of(table, value, argument):
    """The number of a name; numbers of the table themselves are taken too."""
    if isinstance(value, str) and value in table:
        return table[value]
    if isinstance(value, int) and not isinstance(value, bool) and value in table.values():
        return value
    raise InvalidArgument(f"{argument} is {value!r}, expected one of {', '.join(map(repr, table))}")


def pad_mode(value, argument="padding_mode"):
    return _PAD_SYNONYMS[value] if isinstance(value, str) and value in _PAD_SYNONYMS else number_of(PAD_MODES, value, argument)


def type_number(value, argument="dtype"):
    """The library's number of a type given as 'f32', 'float32', a NumPy dtype or a torch.dtype."""
    text = value if isinstance(value, str) else getattr(value, "name", None) or getattr(value, "__name__", None) or str(value)
    text = text.rsplit(".", 1)[-1]  # "torch.float32"
    number = TYPES.get(text) or _SYNONYMS.get(text)
    if number is None:
        raise InvalidArgument(f"{argument} is {value!r}, expected one of {', '.join(TYPES)}")
    return number


def activation(value):
    """(number, alpha) of 'relu' or ('leaky_relu', 0.1)."""
    name, alpha = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
    number = 0 if name is None else number_of(ACTIVATIONS, name, "activation")
    if alpha is None:
        alpha = _ALPHA.get(name, 0.0)
    elif name not in _ALPHA:
        raise InvalidArgument(f"activation is {value!r}, but {name} takes no number; of {', '.join(_ALPHA)} one is expected")
    return number, real(alpha, f"the number in activation={value!r}")
