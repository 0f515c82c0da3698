"""Clones of files that share storage: clone.py DIR."""

import errno
import fcntl
import os
import struct
import sys

from check import data, drop_caches, equal, expect, fails_with, note, run, same_bytes

MIB = 1 << 20
FICLONE = 0x40049409
FICLONERANGE = 0x4020940D
CLONES = 20
BLOCK = 4096


def clone(target, source):
    fcntl.ioctl(target, FICLONE, source)


def clone_range(target, source, source_offset, length, target_offset):
    words = struct.pack("qQQQ", source, source_offset, length, target_offset)
    fcntl.ioctl(target, FICLONERANGE, words)


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def used(d):
    room = os.statvfs(d)
    return (room.f_blocks - room.f_bfree) * room.f_frsize


def whole_files(d, source, content):
    """More of them than there is room for copies."""
    before = used(d)
    for number in range(CLONES):
        path = f"{d}/clone{number}"
        target = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644)
        clone(target, source)
        equal(os.fstat(target).st_size, len(content), "size of a clone")
        os.pwrite(target, b"its own", 3 * MIB + number)
        os.close(target)
    drop_caches()
    for number in range(CLONES):
        wanted = bytearray(content)
        wanted[3 * MIB + number : 3 * MIB + number + 7] = b"its own"
        same_bytes(contents(f"{d}/clone{number}"), bytes(wanted), f"clone {number}")
    taken = used(d) - before
    note(f"{CLONES} clones of {len(content) / MIB:.1f} MiB took {taken / MIB:.1f} MiB")
    expect(taken < CLONES * len(content) // 4, f"the clones took {taken} bytes")


def parts(d, source, content):
    model = bytearray(data(4, 8 * MIB))
    target = os.open(f"{d}/parts", os.O_CREAT | os.O_RDWR, 0o644)
    clone(target, source)
    os.pwrite(target, model, 0)
    model += content[len(model) :]
    # Not synced: what was written counts all the same.
    os.pwrite(source, b"late", 5 * MIB)
    content[5 * MIB : 5 * MIB + 4] = b"late"
    clone_range(target, source, 5 * MIB, 2 * MIB + BLOCK, 5 * MIB)
    model[5 * MIB : 7 * MIB + BLOCK] = content[5 * MIB : 7 * MIB + BLOCK]
    same_bytes(os.pread(target, len(model), 0), bytes(model), "a part of a file")
    drop_caches()
    same_bytes(contents(f"{d}/parts"), bytes(model), "a part of a file past the cache")
    refused = [errno.EINVAL]
    fails_with(refused, "no whole blocks", clone_range, target, source, 1, BLOCK, BLOCK)
    fails_with(refused, "beyond the end", clone_range, target, source, 0, 1 << 40, 0)
    os.close(target)


def main():
    d = sys.argv[1]
    content = bytearray(data(3, 16 * MIB + 4321))
    source = os.open(f"{d}/source", os.O_CREAT | os.O_RDWR, 0o644)
    os.pwrite(source, content, 0)
    whole_files(d, source, content)
    parts(d, source, content)
    os.close(source)


run(main)
