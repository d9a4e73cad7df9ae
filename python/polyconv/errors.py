"""The exceptions of polyconv, one for each status of the C library. Each holds the library's sentence: field, value and
what was expected."""
# SPDX-License-Identifier: Apache-2.0

from . import _core


class Error(Exception):
    """Whatever went wrong in polyconv."""


class InvalidArgument(Error, ValueError):
    """An argument, or a combination of them, that can never work."""


class Unsupported(Error, NotImplementedError):
    """A valid problem that no kernel takes under these options."""


class Unavailable(Error, RuntimeError):
    """A backend or device that is not on this machine."""


class OutOfMemory(Error, MemoryError):
    """Host or device memory ran out."""


class DeviceError(Error, RuntimeError):
    """The device or its driver reported an error."""


class FileError(Error, OSError):
    """A file could not be read, written or understood."""


class InternalError(Error, RuntimeError):
    """A defect in polyconv or in one of its backends; please report it."""


# By the number of the status; a workspace that is too small is a defect of this package, which makes them.
_core.set_exceptions(
    [
        Error,
        InvalidArgument,
        Unsupported,
        Unavailable,
        OutOfMemory,
        InternalError,
        DeviceError,
        FileError,
        InternalError,
    ]
)
