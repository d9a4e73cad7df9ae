# memory.py - buffers between guard pages: each lies at one end of its own mapping, so that a step past that end is a
# fault, and its other side and the gaps between its elements are poisoned and looked at afterwards.
# SPDX-License-Identifier: Apache-2.0
import ctypes as c
import mmap

import numpy as np

import elements

PAGE = mmap.PAGESIZE
POISON = 0xFF  # NaN in every float type, -1 or the largest number in integers
SLACK = 512    # bytes of poison beside a buffer

_libc = c.CDLL(None, use_errno=True)


class Arena:
    """One mapping, between two pages that nobody may touch."""

    def __init__(self, size):
        self.size = (size + PAGE - 1) // PAGE * PAGE
        self._map = mmap.mmap(-1, self.size + 2 * PAGE)
        self.base = c.addressof(c.c_char.from_buffer(self._map)) + PAGE
        for guard in (self.base - PAGE, self.base + self.size):
            if _libc.mprotect(c.c_void_p(guard), c.c_size_t(PAGE), 0) != 0:
                raise OSError(c.get_errno(), "mprotect of a guard page")
        self.bytes = np.frombuffer(self._map, np.uint8, self.size, PAGE)

    def place(self, size, at_end, alignment=1):
        """A Region of `size` bytes that ends at the guard page behind, or begins at the one before."""
        begin = (self.size - size) // alignment * alignment if at_end else 0
        return Region(self, begin, size)


class Region:
    def __init__(self, arena, begin, size):
        if begin < 0:
            raise MemoryError(f"a buffer of {size} bytes")
        self.address, self.size = arena.base + begin, size
        low, high = max(begin - SLACK, 0), min(begin + size + SLACK, arena.size)
        self._around, self._inside = arena.bytes[low:high], slice(begin - low, begin - low + size)
        self.bytes = self._around[self._inside]
        self.poison()

    def poison(self, byte=POISON):
        self._around[:] = POISON
        if byte != POISON:
            self.bytes[:] = byte

    def elements(self, shape, strides, name):
        """The tensor's elements in this memory, of its memory type."""
        size = elements.BYTES[name]
        flat = self.bytes.view(elements.MEMORY[name])[before_first(shape, strides):]
        steps = [s * size if n > 1 else size for n, s in zip(shape, strides)]  # of one element it may be anything
        return np.lib.stride_tricks.as_strided(flat, shape, steps)

    def keep(self):
        """A copy for changed()."""
        return self._around.copy()

    def changed(self, kept, written=None):
        """Where bytes differ from the copy, from the buffer's begin; None where none does. `written` (shape, strides,
        type): elements that may."""
        if written is not None:
            mine = kept[self._inside]
            if mine.size:
                Region.elements(_Bytes(mine), *written)[...] = self.elements(*written)
        if np.array_equal(kept, self._around):
            return None
        return int(np.flatnonzero(kept != self._around)[0]) - self._inside.start


def before_first(shape, strides):
    """How many elements of memory lie before the tensor's element 0: some where strides are negative."""
    return sum((n - 1) * -s for n, s in zip(shape, strides) if s < 0 < n)


class _Bytes:
    def __init__(self, data):
        self.bytes = data


class Memory:
    """An arena for each buffer, made when it is first wanted and kept for the next problems."""

    LIMIT = 64 << 20

    def __init__(self):
        self._arenas = {}

    def place(self, role, size, at_end, alignment=1):
        if size > self.LIMIT:
            raise MemoryError(f"{role} wants {size} bytes; this tester gives {self.LIMIT}")
        arena = self._arenas.get(role)
        if arena is None or arena.size < size + PAGE:
            self._arenas[role] = arena = Arena(max(1 << 20, 2 * size + PAGE))
        return arena.place(size, at_end, alignment)
