from typing import Any, Literal, NamedTuple, Optional, Sequence, Union

class Row(NamedTuple):
    platform: str
    problem: str
    kernel: str
    traces: int
    note: str

class Report(list[Row]): ...

def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Union[str, Sequence[tuple[int, int]]],
    lhs_dilation: Optional[Sequence[int]] = None,
    rhs_dilation: Optional[Sequence[int]] = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    math: Optional[Literal["strict", "fp32_emulated", "tf32", "fast"]] = None,
    determinism: Literal["none", "run", "invariant"] = "run",
    threads: int = 0,
) -> Any: ...
def report() -> Report: ...
def cache_clear() -> None: ...
