"""Checks of a sparse file of 2 GiB and a bit: sparse.py DIR."""

import os
import random
import sys

from check import data, drop_caches, equal, expect, note, run, same_bytes

GIB = 1 << 30
SIZE = 2 * GIB + 4097
EXTENTS = [(0, 70_000), (GIB - 5000, 10_000), (2 * GIB - 3, 6), (SIZE - 300, 300)]
SAMPLES = 48
SAMPLE = 64 << 10


def wanted(start, length):
    """What the range must hold: the written extents, zeros elsewhere."""
    out = bytearray(length)
    for number, (offset, size) in enumerate(EXTENTS):
        content = data(number, size)
        low, high = max(start, offset), min(start + length, offset + size)
        if low < high:
            out[low - start : high - start] = content[low - offset : high - offset]
    return bytes(out)


def holes(fd):
    """SEEK_DATA and SEEK_HOLE may know less than there is, but never call data a hole."""
    for offset, size in EXTENTS:
        equal(os.lseek(fd, offset, os.SEEK_DATA), offset, f"SEEK_DATA at the data at {offset}")
        hole = os.lseek(fd, offset, os.SEEK_HOLE)
        expect(hole >= offset + size, f"SEEK_HOLE calls data at {hole} a hole")


def main():
    path = f"{sys.argv[1]}/sparse"
    fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    for number, (offset, size) in enumerate(EXTENTS):
        equal(os.pwrite(fd, data(number, size), offset), size, "bytes written")
    os.fsync(fd)
    os.close(fd)
    drop_caches()

    fd = os.open(path, os.O_RDWR)
    equal(os.fstat(fd).st_size, SIZE, "size")
    for offset, size in EXTENTS:
        start = max(0, offset - 9000)
        length = min(size + 18_000, SIZE - start)
        same_bytes(os.pread(fd, length, start), wanted(start, length), f"around {offset}")
    rng = random.Random(7)
    for _ in range(SAMPLES):
        start = rng.randrange(SIZE - SAMPLE)
        same_bytes(os.pread(fd, SAMPLE, start), wanted(start, SAMPLE), f"sample at {start}")
    equal(os.pread(fd, 100, SIZE), b"", "read at the end")
    equal(os.pread(fd, 1000, SIZE - 300), data(len(EXTENTS) - 1, 300), "read over the end")
    holes(fd)
    note(f"it takes {os.fstat(fd).st_blocks // 2} KiB on the server")

    os.ftruncate(fd, GIB + 5000)
    os.ftruncate(fd, SIZE)
    drop_caches()
    equal(os.pread(fd, 300, SIZE - 300), bytes(300), "the end after shrinking and growing")
    same_bytes(os.pread(fd, 5000, GIB), wanted(GIB, 5000), "the middle after shrinking and growing")
    os.close(fd)


run(main)
