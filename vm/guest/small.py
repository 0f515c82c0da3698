"""Small files, then large ones from nothing: small.py DIR COUNT BYTES LARGE_MIB.

Between the two, and at the end, it waits for the host, which counts what went through the MDS.
"""

import os
import sys
import time

from check import aligned, await_host, data, drop_caches, equal, note, run, same_bytes, tell


def content(number, size):
    return (b"%08d " % number) * (size // 9 + 1)


def write_new(path, blocks, flags=0):
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | flags, 0o644)
    for block in blocks:
        equal(os.write(fd, block), len(block), "bytes written at once")
    os.close(fd)


def main():
    d, count, size, mib = sys.argv[1], *map(int, sys.argv[2:])
    began = time.monotonic()
    for number in range(count):
        write_new(f"{d}/small-{number}", [content(number, size)[:size]])
    took = time.monotonic() - began
    note(f"{count} files of {size} bytes made, written, closed: {took / count * 1e6:.0f} us each")
    tell("small")
    await_host("large")
    block = aligned(1 << 20)
    block[:] = data(1, 1 << 20)
    for name, flags in (("buffered", 0), ("sync", os.O_SYNC), ("direct", os.O_DIRECT)):
        write_new(f"{d}/large-{name}", [block] * mib, flags)
    tell("written")
    await_host("counted")
    drop_caches()
    for number in range(count):
        with open(f"{d}/small-{number}", "rb") as f:
            same_bytes(f.read(), content(number, size)[:size], f"small-{number}")
    for name in ("buffered", "sync", "direct"):
        with open(f"{d}/large-{name}", "rb") as f:
            same_bytes(f.read(), bytes(block) * mib, f"large-{name}")
    # A small file that is written again by a second open, and one that grows past the threshold in small steps.
    with open(f"{d}/small-0", "r+b") as f:
        f.seek(100)
        f.write(b"again")
    grown = bytes(range(256)) * 16
    for step in range(64):
        with open(f"{d}/grown", "ab") as f:
            f.write(grown)
            os.fsync(f.fileno())
    drop_caches()
    with open(f"{d}/small-0", "rb") as f:
        expected = bytearray(content(0, size)[:size])
        expected[100:105] = b"again"
        same_bytes(f.read(), bytes(expected), "small-0, written again")
    with open(f"{d}/grown", "rb") as f:
        same_bytes(f.read(), grown * 64, "grown")


run(main)
