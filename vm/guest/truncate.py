"""Checks of truncate between two mounts of one directory: truncate.py DIR DIR2 DIR3.

DIR and DIR2 belong to one client. Another client keeps each file open by way of DIR3, so that none is delegated.

A client that has a file open for buffered writing keeps its pages whatever the server says
(close-to-open consistency), so what another mount did is looked at through O_DIRECT, or through an
open that only reads.
"""

import errno
import os
import sys
from contextlib import contextmanager

from check import data, direct_read, direct_write, equal, fails_with, note, run, same_bytes

MIB = 1 << 20


@contextmanager
def kept_open(path):
    fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    yield
    os.close(fd)


def read_all(fd):
    return direct_read(fd, os.fstat(fd).st_size + 4096, 0)


def under_open(a, b):
    content = data(5, MIB)
    fd = os.open(f"{a}/file", os.O_CREAT | os.O_RDWR | os.O_DIRECT, 0o644)
    direct_write(fd, content, 0)
    os.truncate(f"{b}/file", 1000)
    equal(os.fstat(fd).st_size, 1000, "size after the other mount's truncate")
    same_bytes(read_all(fd), content[:1000], "data after the other mount's truncate")
    os.truncate(f"{b}/file", 5000)
    same_bytes(read_all(fd), content[:1000] + bytes(4000), "data after the other mount extended")

    direct_write(fd, b"far", 10_000)
    wanted = content[:1000] + bytes(9000) + b"far"
    with open(f"{b}/file", "rb") as other:
        same_bytes(other.read(), wanted, "the other mount's read after a write here")

    other = os.open(f"{b}/file", os.O_RDWR | os.O_DIRECT)
    os.ftruncate(fd, 100)
    equal(os.fstat(other).st_size, 100, "the other mount's size")
    same_bytes(read_all(other), content[:100], "the other mount's data")
    os.close(os.open(f"{b}/file", os.O_WRONLY | os.O_TRUNC))
    equal(os.fstat(fd).st_size, 0, "size after the other mount opened with O_TRUNC")
    equal(read_all(fd), b"", "data after the other mount opened with O_TRUNC")
    os.close(other)
    os.close(fd)


def under_cached_read(a, b):
    """The reader's page of the file's end is in its cache when the other mount moves the end."""
    content = data(8, 50_000)
    with open(f"{b}/read", "wb") as file:
        file.write(content)
    fd = os.open(f"{a}/read", os.O_RDONLY)
    same_bytes(os.pread(fd, 60_000, 0), content, "a cached read")
    for end in (20_001, 40_000, 0, 12_345):
        os.truncate(f"{b}/read", end)
        content = content[:end].ljust(end, b"\0")
        equal(os.fstat(fd).st_size, end, "the reader's size")
        same_bytes(os.pread(fd, 60_000, 0), content, f"a cached read after truncate to {end}")
    os.close(fd)


def nothing_old(a, b):
    """Shrink, then grow: what was cut off reads as zeros, wherever a stripe or page ends."""
    length = 5 * MIB + 123
    content = data(6, length)
    path_a, path_b = f"{a}/stripes", f"{b}/stripes"
    cuts = [0, 1, 4095, 4096, 65_537, MIB - 1, MIB, MIB + 1, 3 * MIB, 3 * MIB + 7, length - 1]
    for cut in cuts:
        with open(path_a, "wb") as file:
            file.write(content)
        fd = os.open(path_a, os.O_RDONLY | os.O_DIRECT)
        os.truncate(path_b, cut)
        os.truncate(path_b, length)
        wanted = content[:cut] + bytes(length - cut)
        same_bytes(direct_read(fd, length, 0), wanted, f"direct read, cut at {cut}")
        os.close(fd)
        with open(path_b, "rb") as file:
            same_bytes(file.read(), wanted, f"the other mount's read, cut at {cut}")


def append(a, b):
    """Appends of two mounts in turn: each one finds the other's end."""
    for turn in range(20):
        with open(f"{b if turn % 2 else a}/log", "ab") as file:
            file.write(b"%04d" % turn)
    with open(f"{a}/log", "rb") as file:
        equal(file.read(), b"".join(b"%04d" % turn for turn in range(20)), "appends in turn")


def too_large(a):
    """What the server's file systems do not hold is refused at once, and nothing is lost at the sync."""
    fd = os.open(f"{a}/large", os.O_CREAT | os.O_RDWR, 0o644)
    try:
        os.ftruncate(fd, 1 << 62)
        note("the server holds files of 2^62 bytes")
    except OSError as error:
        equal(error.errno, errno.EFBIG, "the error of a truncation to 2^62")
        # ext4 with its usual blocks.
        limit = (16 << 40) - 4096
        fails_with([errno.EFBIG], "a write beyond the limit", os.pwrite, fd, b"x", limit)
        equal(os.fstat(fd).st_size, 0, "size after what was refused")
        os.ftruncate(fd, limit)
        equal(os.pwrite(fd, b"x", limit - 1), 1, "bytes of the last write")
        os.fsync(fd)
        note(f"the server holds files of {limit} bytes")
    os.close(fd)
    os.unlink(f"{a}/large")


def main():
    a, b, c = sys.argv[1:]
    too_large(a)
    for name, part in [
        ("file", under_open),
        ("read", under_cached_read),
        ("stripes", nothing_old),
        ("log", append),
    ]:
        with kept_open(f"{c}/{name}"):
            part(a, b)


run(main)
