#!/usr/bin/env python3
"""The machine code of every kernel below a build folder, a line each: a hash, the name. Of two versions the same text,
where the device does the same (nvcc may give an unchanged kernel another order of instructions, seldom: compile again):

    python3 tests/cuda_host/machine_code.py build/cuda > before.txt     (pip install zstandard)
"""
import collections
import hashlib
import pathlib
import re
import struct
import sys

import zstandard

FATBIN, ZSTD, ELF = 0xBA55ED50, b"\x28\xb5\x2f\xfd", 2


def sections(elf):
    table, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
    names = elf[headers[names_at][4]:][:headers[names_at][5]]
    for name, kind, _, _, offset, length in headers:
        yield names[name:names.index(b"\0", name)].decode(), elf[offset:offset + length] if kind != 8 else b"%d" % length


def cubins(path):
    """Those of an object: containers of entries, each with a header, packed or not."""
    for name, fat in sections(path.read_bytes()):
        at = 0
        while name == ".nv_fatbin" and at + 16 <= len(fat):
            magic, _, header, size = struct.unpack_from("<IHHQ", fat, at)
            if magic != FATBIN:
                at += 8
                continue
            entry, at = at + header, at + header + size
            while entry < at:
                kind, _, header, size = struct.unpack_from("<HHIQ", fat, entry)
                code = fat[entry + header:entry + header + size]
                if code.startswith(ZSTD):
                    code = zstandard.ZstdDecompressor().decompressobj().decompress(code)
                if kind == ELF:
                    yield code
                entry += header + size


def kernels(cubin):
    """Hashes of code, constants and shared memory, by name."""
    found = collections.defaultdict(hashlib.sha256)
    for name, data in sections(cubin):
        part = re.match(r"\.(text|nv\.constant\d+|nv\.shared)\.(.+)", name)
        if part:
            values = len(data) if part[1] == "nv.constant0" else data  # parameters: only their size is known
            found[part[2]].update(f"{part[1]} {values!r}".encode())
    return found


def main():
    lines = set()
    objects = sorted(pathlib.Path(sys.argv[1]).rglob("*.cu.o"))
    for path in objects:
        for cubin in cubins(path):
            for name, code in kernels(cubin).items():
                # Names of anonymous namespaces have hashes of their file.
                name = re.sub(r"\d*_GLOBAL__N__[0-9a-f]{8}_\d+_([a-z_0-9]+)_[0-9a-f]{8}", r"\1", name)
                lines.add(f"{code.hexdigest()[:16]} {name}")
    print(*sorted(lines, key=lambda line: line[17:]), sep="\n")
    return 0 if lines else 1


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) == 2 else __doc__)
