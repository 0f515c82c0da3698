"""Ranges of files by the operations of NFSv4.2: ranges.py DIR OTHER-DIR THIRD-DIR.

The directories are one, by two mounts of one client without a common cache and by another client, which only keeps files open, so that
nobody is delegated them. Holes and reserved storage, the search for data, copies within the server, small (done when answered) and
large (the server calls back). What one mount changed, the other reads.
"""

import errno
import os
import sys

from check import data, drop_caches, equal, expect, fails_with, fallocate, run, same_bytes

MIB = 1 << 20
# More than what the server copies before it answers.
LARGE = 18 * MIB + 4321
KEEP_SIZE = 1
PUNCH_HOLE = 2


def punch(fd, offset, length):
    fallocate(fd, PUNCH_HOLE | KEEP_SIZE, offset, length)


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def copied(source, target, count, source_offset=0, target_offset=0):
    """copy_file_range until all is copied."""
    done = 0
    while done < count:
        step = os.copy_file_range(
            source, target, count - done, source_offset + done, target_offset + done
        )
        expect(step > 0, f"copy_file_range ended after {done} of {count} bytes")
        done += step


def holes(here, there):
    path, other = f"{here}/holes", f"{there}/holes"
    model = bytearray(data(1, 5 * MIB))
    fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    # Not synced: what is asked for must count all the same.
    os.pwrite(fd, model, 0)
    equal(os.lseek(fd, 3, os.SEEK_DATA), 3, "SEEK_DATA in unsynced data")
    equal(os.lseek(fd, 3, os.SEEK_HOLE), 5 * MIB, "SEEK_HOLE finds the end")
    start, length = MIB + 777, 3 * MIB
    punch(fd, start, length)
    model[start : start + length] = bytes(length)
    same_bytes(os.pread(fd, 6 * MIB, 0), bytes(model), "after the hole was made")
    same_bytes(contents(other), bytes(model), "the hole by the other mount")
    hole = os.lseek(fd, 0, os.SEEK_HOLE)
    expect(start <= hole <= start + MIB, f"SEEK_HOLE finds {hole}")
    found = os.lseek(fd, hole, os.SEEK_DATA)
    expect(hole < found <= start + length, f"SEEK_DATA finds {found}")
    os.ftruncate(fd, 40 * MIB)
    fails_with([errno.ENXIO], "SEEK_DATA behind all data", os.lseek, fd, 20 * MIB, os.SEEK_DATA)
    fails_with([errno.ENXIO], "SEEK_HOLE behind the end", os.lseek, fd, 41 * MIB, os.SEEK_HOLE)
    os.close(fd)
    drop_caches()
    same_bytes(contents(path)[: 5 * MIB], bytes(model), "past the cache")


def reserved(here, there):
    path, other = f"{here}/reserved", f"{there}/reserved"
    fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    os.pwrite(fd, b"bytes", 0)
    fallocate(fd, 0, 0, 3 * MIB)
    equal(os.fstat(fd).st_size, 3 * MIB, "size after fallocate")
    equal(os.stat(other).st_size, 3 * MIB, "size by the other mount")
    os.pwrite(fd, b"more", 2 * MIB)
    os.fsync(fd)
    wanted = bytearray(3 * MIB)
    wanted[0:5], wanted[2 * MIB : 2 * MIB + 4] = b"bytes", b"more"
    same_bytes(contents(other), bytes(wanted), "what was reserved")
    # Below the largest file of ext4, and above what a disk of these servers has.
    fails_with([errno.ENOSPC], "fallocate of 8 TiB", fallocate, fd, 0, 0, 8 << 40)
    equal(os.fstat(fd).st_size, 3 * MIB, "size after a refused fallocate")
    os.close(fd)


def copies(here, there):
    content = data(2, LARGE)
    source = os.open(f"{here}/source", os.O_CREAT | os.O_RDWR, 0o644)
    os.pwrite(source, content, 0)
    target = os.open(f"{here}/small", os.O_CREAT | os.O_RDWR, 0o644)
    copied(source, target, 70_001, 12_345, 777)
    same_bytes(
        contents(f"{there}/small"), bytes(777) + content[12_345:82_346], "a small copy"
    )
    os.close(target)
    target = os.open(f"{here}/large", os.O_CREAT | os.O_RDWR, 0o644)
    copied(source, target, LARGE)
    same_bytes(contents(f"{there}/large"), content, "a large copy")
    same_bytes(contents(f"{here}/large"), content, "a large copy, by who made it")
    os.close(target)
    # A sparse source stays one.
    os.ftruncate(source, 0)
    os.pwrite(source, b"end", 700 * MIB)
    target = os.open(f"{here}/sparse", os.O_CREAT | os.O_RDWR, 0o644)
    copied(source, target, 700 * MIB + 3)
    found = os.lseek(target, 0, os.SEEK_DATA)
    expect(found > 690 * MIB, f"the copy of a hole has data at {found}")
    equal(os.pread(target, 9, 700 * MIB), b"end", "the end of a sparse copy")
    os.close(target)
    os.close(source)


def main():
    here, there, third = sys.argv[1:4]
    for name in ["holes", "reserved", "source", "small", "large", "sparse"]:
        os.open(f"{third}/{name}", os.O_CREAT | os.O_RDWR, 0o644)
    holes(here, there)
    reserved(here, there)
    copies(here, there)


run(main)
