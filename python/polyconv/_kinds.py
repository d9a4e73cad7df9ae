"""Where arrays come from: NumPy, PyTorch, CuPy, JAX, or anybody with DLPack or the array interface. The extension module
asks here for what it can't know without these libraries; none of them is imported before one of its arrays came."""
# SPDX-License-Identifier: Apache-2.0

import contextlib
import sys

import numpy

from . import _core
from .errors import InvalidArgument
from .names import NUMPY_NAMES, TYPES

NUMPY, TORCH, CUPY, JAX, OTHER, MASKED = range(6)


def kind_of_type(cls):
    """The kind of array that instances of a class are, by the module of the class or of one that it derives from."""
    if issubclass(cls, numpy.ma.MaskedArray):
        return MASKED
    if issubclass(cls, (numpy.ndarray, numpy.generic)):
        return NUMPY
    for base in cls.__mro__:
        module = base.__module__.split(".", 1)[0]
        if module == "torch" and base.__name__ == "Tensor":
            return TORCH
        if module == "cupy" and base.__name__ == "ndarray":
            return CUPY
        if module in ("jax", "jaxlib") and "Array" in base.__name__:
            return JAX
    return OTHER


def torch_types():
    """The library's number of each torch.dtype."""
    torch = sys.modules["torch"]
    types = {getattr(torch, name): number for number, name in enumerate(NUMPY_NAMES) if hasattr(torch, name)}
    return types


def numpy_types():
    """NumPy's dtypes by the library's numbers; None where it has none of its own."""
    return [getattr(numpy, name, None) and numpy.dtype(name) for name in NUMPY_NAMES]


def numpy_dtype(number):
    """NumPy's dtype, with bfloat16 from ml_dtypes (which JAX brings)."""
    if number != TYPES["bf16"]:
        return numpy.dtype(NUMPY_NAMES[number])
    try:
        import ml_dtypes
    except ImportError:
        raise InvalidArgument("the result is bf16, which NumPy does not have: expected ml_dtypes to be installed") from None
    return numpy.dtype(ml_dtypes.bfloat16)


def dtype_of(array):
    """How an array itself calls its type, for sentences."""
    return str(getattr(array, "dtype", None) or type(array).__name__)


def interface(array, role):
    """An array by its array interface: (pointer, shape, strides in bytes or None, type, bytes of an element, read only,
    CUDA device or -1, what keeps it alive)."""
    on_cuda = getattr(array, "__cuda_array_interface__", None)
    found = on_cuda if on_cuda is not None else getattr(array, "__array_interface__", None)
    if found is None:
        raise InvalidArgument(
            f"{role} is a {type(array).__module__}.{type(array).__qualname__}, expected an array of NumPy, PyTorch, JAX or "
            "CuPy, or anything else with __dlpack__ or __array_interface__"
        )
    data = found.get("data")
    if data is None or not isinstance(data, tuple):
        array = numpy.asarray(array)  # hands out a buffer, as pictures of PIL do: NumPy knows how to look at it
        found = array.__array_interface__
        data = found["data"]
    letters = found["typestr"]
    size = int(letters[2:])
    name = getattr(getattr(array, "dtype", None), "name", "")
    known = {"f8": 1, "f4": 2, "f2": 3, "i4": 5, "i1": 6, "u1": 7, "u2": 8}
    number = TYPES["bf16"] if name == "bfloat16" else known.get(letters[1:], 0)
    if letters[0] == (">" if sys.byteorder == "little" else "<"):
        number = 0
    device = cuda_device(array) if on_cuda is not None else -1
    return (data[0], found["shape"], found.get("strides"), number, size, bool(data[1]), device, array)


def cuda_device(array):
    """The number of the CUDA device that an array is on."""
    device = getattr(array, "device", None)
    for name in ("id", "index"):
        if isinstance(getattr(device, name, None), int):
            return getattr(device, name)
    return 0


def stream_of(array):
    """The CUDA stream that an array's library works on now; 0 on the CPU and where it has no notion of one."""
    kind = kind_of_type(type(array))
    if kind == CUPY:
        return sys.modules["cupy"].cuda.get_current_stream().ptr
    if kind == TORCH and array.is_cuda:
        return torch_stream(array.device)
    return 0


def torch_stream(device):
    return sys.modules["torch"].cuda.current_stream(device).cuda_stream


def _as_torch_stream(stream, device):
    cuda = sys.modules["torch"].cuda
    return cuda.ExternalStream(stream, device=device) if stream else cuda.default_stream(device)


def hand_over(tensor, stream):
    """A tensor of PyTorch on CUDA to another stream than PyTorch works on now: that stream waits for what PyTorch still has to do,
    as DLPack has it, and the memory is not given to others before the stream is done with it."""
    current = sys.modules["torch"].cuda.current_stream(tensor.device)
    if current.cuda_stream != stream:
        other = _as_torch_stream(stream, tensor.device)
        other.wait_stream(current)
        tensor.record_stream(other)


def _allocating_for(stream, like):
    """While it lasts PyTorch's allocator gives memory for a stream: what comes free on another one may still be in use there."""
    torch = sys.modules["torch"]
    if not like.is_cuda or torch_stream(like.device) == stream:
        return contextlib.nullcontext()
    return torch.cuda.stream(_as_torch_stream(stream, like.device))


def as_float32(vector):
    """A vector of half precision as f32, on the stream of its library."""
    if kind_of_type(type(vector)) == TORCH:
        return vector.float()
    return vector.astype("float32")


def empty(shape, number, like, stream=0):
    """A dense array of the library that `like` is of, on its device, to be written to on a stream. JAX's can't be written to: memory
    that becomes one afterwards stands in."""
    kind = kind_of_type(type(like))
    if kind == TORCH:
        torch = sys.modules["torch"]
        with _allocating_for(stream, like):
            return torch.empty(shape, dtype=getattr(torch, NUMPY_NAMES[number]), device=like.device)
    if kind == CUPY:
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(like.device.id):
            return cupy.empty(shape, dtype=numpy_dtype(number))
    if kind == JAX and getattr(next(iter(like.devices())), "platform", "") != "cpu":
        raise InvalidArgument(
            "x is a JAX array on a GPU, and JAX's arrays can't be written to: expected an array of CuPy or PyTorch, or out="
        )
    if kind == OTHER and hasattr(like, "__dlpack_device__") and int(like.__dlpack_device__()[0]) != 1:
        raise InvalidArgument(
            f"out is missing: polyconv can't make arrays of {type(like).__module__}.{type(like).__qualname__} on a GPU, "
            "expected one to write to"
        )
    return numpy.empty(shape, dtype=numpy_dtype(number))


def permute(array, axes):
    return array.permute(axes) if hasattr(array, "permute") else array.transpose(axes)


def as_jax(array):
    """A NumPy array that nobody else has, as JAX's own."""
    return sys.modules["jax"].numpy.asarray(array)


def scratch(size, like, stream=0):
    """Memory on the device of an array for work on a stream, from the allocator of its library where that knows streams: (owner,
    pointer)."""
    kind = kind_of_type(type(like))
    if kind == TORCH and like.is_cuda:
        torch = sys.modules["torch"]
        with _allocating_for(stream, like):
            owner = torch.empty(size, dtype=torch.uint8, device=like.device)
        return owner, owner.data_ptr()
    if kind == CUPY:
        owner = sys.modules["cupy"].empty(size, dtype="uint8")
        return owner, owner.data.ptr
    where = like.__dlpack_device__() if kind == OTHER and hasattr(like, "__dlpack_device__") else (1, 0)
    owner = _core.Memory("cpu" if int(where[0]) in (1, 3) else f"cuda:{int(where[1])}", size)
    return owner, owner.pointer
