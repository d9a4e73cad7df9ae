import os
from typing import Any, Callable, Literal, NamedTuple, Optional, Sequence, Tuple, Union

from .errors import DeviceError as DeviceError
from .errors import Error as Error
from .errors import FileError as FileError
from .errors import InternalError as InternalError
from .errors import InvalidArgument as InvalidArgument
from .errors import OutOfMemory as OutOfMemory
from .errors import Unavailable as Unavailable
from .errors import Unsupported as Unsupported

__version__: str

Array = Any  # of NumPy, PyTorch, JAX, CuPy, or anything with DLPack or an array interface
Axes = Union[int, Sequence[int]]
Padding = Union[int, Sequence[int], Sequence[Tuple[int, int]], Literal["same", "valid"]]
PadMode = Literal["zero", "constant", "reflect", "symmetric", "replicate", "circular"]
Math = Literal["strict", "fp32_emulated", "tf32", "fast"]
Determinism = Literal["none", "run", "invariant", "identical"]
ActivationName = Literal[
    "none", "relu", "clipped_relu", "leaky_relu", "tanh", "sigmoid", "gelu", "silu", "hard_swish", "elu", "gelu_tanh", "prelu"
]
Activation = Union[ActivationName, Tuple[ActivationName, float], None]
DType = Any  # 'f32', 'float32', a NumPy dtype, a torch.dtype

class Pool(NamedTuple):
    kind: Literal["max", "average", "avg"]
    window: Axes
    stride: Optional[Axes] = None
    padding: Axes = 0
    dilation: Axes = 1
    ceil: bool = False
    count_include_pad: bool = True

def conv(
    x: Array,
    w: Union[Array, Weights],
    bias: Optional[Array] = None,
    *,
    stride: Axes = 1,
    padding: Padding = 0,
    padding_mode: PadMode = "zero",
    pad_value: float = 0.0,
    dilation: Axes = 1,
    groups: int = 1,
    activation: Activation = None,
    pool: Optional[Pool] = None,
    residual: Optional[Array] = None,
    residual_scale: float = 1.0,
    scale: Optional[Array] = None,
    slope: Optional[Array] = None,
    math: Math = "strict",
    determinism: Determinism = "run",
    kernel: Optional[str] = None,
    threads: int = 0,
    channels_last: bool = False,
    flip: bool = False,
    dtype: Optional[DType] = None,
    out: Optional[Array] = None,
    stream: Optional[int] = None,
) -> Array: ...
def conv_transpose(
    x: Array,
    w: Union[Array, Weights],
    bias: Optional[Array] = None,
    *,
    stride: Axes = 1,
    padding: Union[Axes, Sequence[Tuple[int, int]]] = 0,
    output_padding: Axes = 0,
    dilation: Axes = 1,
    groups: int = 1,
    activation: Activation = None,
    pool: Optional[Pool] = None,
    residual: Optional[Array] = None,
    residual_scale: float = 1.0,
    scale: Optional[Array] = None,
    slope: Optional[Array] = None,
    math: Math = "strict",
    determinism: Determinism = "run",
    kernel: Optional[str] = None,
    threads: int = 0,
    channels_last: bool = False,
    dtype: Optional[DType] = None,
    out: Optional[Array] = None,
    stream: Optional[int] = None,
) -> Array: ...
def grad_input(
    grad: Array,
    w: Array,
    shape: Sequence[int],
    *,
    stride: Axes = 1,
    padding: Padding = 0,
    padding_mode: PadMode = "zero",
    dilation: Axes = 1,
    groups: int = 1,
    transposed: bool = False,
    output_padding: Axes = 0,
    math: Math = "strict",
    determinism: Determinism = "run",
    kernel: Optional[str] = None,
    threads: int = 0,
    channels_last: bool = False,
    dtype: Optional[DType] = None,
    out: Optional[Array] = None,
    stream: Optional[int] = None,
) -> Array: ...
def grad_weight(
    x: Array,
    grad: Array,
    shape: Sequence[int],
    *,
    bias: bool = False,
    stride: Axes = 1,
    padding: Padding = 0,
    padding_mode: PadMode = "zero",
    dilation: Axes = 1,
    groups: int = 1,
    transposed: bool = False,
    output_padding: Axes = 0,
    math: Math = "strict",
    determinism: Determinism = "run",
    kernel: Optional[str] = None,
    threads: int = 0,
    channels_last: bool = False,
    dtype: Optional[DType] = None,
    out: Optional[Array] = None,
    stream: Optional[int] = None,
) -> Any: ...
def filter(
    image: Array,
    kernel: Any,
    *,
    border: PadMode = "reflect",
    border_value: float = 0.0,
    flip: bool = False,
    dtype: Optional[DType] = None,
    threads: int = 0,
    out: Optional[Array] = None,
    stream: Optional[int] = None,
) -> Array: ...

class TensorInfo(NamedTuple):
    dtype: str
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    bytes: int

class Problem:
    def __init__(self, token: Optional[str] = None, **fields: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
    def tensor(self, name: str) -> Optional[TensorInfo]: ...
    @property
    def token(self) -> str: ...
    @property
    def flops(self) -> float: ...

AnyProblem = Union[Problem, str]

class Weights:
    @property
    def format(self) -> str: ...
    @property
    def layer(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    def save(self, path: Union[str, bytes, os.PathLike[Any]]) -> None: ...

class Plan:
    device: str
    def __init__(self, problem: Union[AnyProblem, Sequence[AnyProblem]], device: str = "cpu", **options: Any) -> None: ...
    @property
    def kernel(self) -> str: ...
    @property
    def math(self) -> str: ...
    @property
    def workspace_bytes(self) -> int: ...
    @property
    def estimate_us(self) -> float: ...
    @property
    def measured_on(self) -> str: ...
    @property
    def measured_elsewhere(self) -> bool: ...
    @property
    def fallback(self) -> bool: ...
    @property
    def threads(self) -> int: ...
    @property
    def problems(self) -> Tuple[Problem, ...]: ...
    def weights_format(self, layer: int = 0) -> str: ...
    def pack(self, w: Array, layer: int = 0, stream: Optional[int] = None) -> Weights: ...
    def repack(self, weights: Weights, w: Array, stream: Optional[int] = None) -> None: ...
    def load(self, path: Union[str, bytes, os.PathLike[Any]], layer: int = 0, stream: int = 0) -> Weights: ...
    def run(
        self,
        x: Array,
        w: Any,
        bias: Any = None,
        *,
        residual: Any = None,
        scale: Any = None,
        slope: Any = None,
        out: Optional[Array] = None,
        stream: Optional[int] = None,
    ) -> Array: ...
    def __call__(self, x: Array, w: Any, bias: Any = None, **others: Any) -> Array: ...

class Chain(Plan):
    def __init__(self, problems: Sequence[AnyProblem], device: str = "cpu", **options: Any) -> None: ...

class Candidate(NamedTuple):
    kernel: str
    accepted: bool
    chosen: bool
    fallback: bool
    estimate_us: float
    workspace_bytes: int
    reason: str
    grouping: str
    note: str
    measured: bool
    measured_on: str
    measured_elsewhere: bool

class Explanation:
    text: str
    candidates: list[Candidate]
    @property
    def chosen(self) -> Optional[Candidate]: ...

class Backend(NamedTuple):
    name: str
    version: str
    path: str
    device_kind: str
    reason: str
    available: bool
    kernels: Tuple[str, ...]

class Device(NamedTuple):
    name: str
    model: str
    description: str
    memory_bytes: int
    compute_units: int
    compute_capability: int

class CacheInfo(NamedTuple):
    hits: int
    misses: int
    entries: int
    bytes: int
    most_entries: int
    most_bytes: int

def explain(
    problem: Union[AnyProblem, Sequence[AnyProblem]], device: str = "cpu", **options: Any
) -> Explanation: ...
def tune(
    problem: Union[AnyProblem, Sequence[AnyProblem]], budget_ms: int, device: str = "cpu", **options: Any
) -> Plan: ...

class Tuned(NamedTuple):
    problem: int
    finished: bool
    token: str
    kernel: str
    reason: str
    us: float
    timed: int
    known: int
    elapsed_ms: float
    left_ms: float
    unkept: int

def tune_layers(
    problems: Sequence[AnyProblem],
    budget_ms: int = 0,
    device: str = "cpu",
    progress: Optional[Callable[[Tuned], Any]] = None,
    **options: Any,
) -> list[Tuned]: ...
def tune_merge(path: Union[str, bytes, os.PathLike[Any]]) -> int: ...
def backends() -> list[Backend]: ...
def devices() -> list[Device]: ...
def cache_info() -> CacheInfo: ...
def cache_clear() -> None: ...
def cache_limit(entries: int = 256, bytes: int = ...) -> None: ...
