"""Checks of mmap on two mounts of one directory: mmapping.py DIR DIR2."""

import mmap
import os
import sys

from check import data, drop_caches, equal, in_child, joined, run, same_bytes

SIZE = (3 << 20) + 777


def main():
    a, b = sys.argv[1], sys.argv[2]
    content = bytearray(data(1, SIZE))
    fd = os.open(f"{a}/file", os.O_CREAT | os.O_RDWR, 0o644)
    os.ftruncate(fd, SIZE)

    # Written through a mapping only; read through a descriptor of the other mount.
    with mmap.mmap(fd, SIZE) as view:
        equal(view[:], bytes(SIZE), "a mapped hole")
        view[:] = bytes(content)
        same_bytes(os.pread(fd, 5000, 1 << 20), bytes(content[1 << 20 : (1 << 20) + 5000]),
                   "a descriptor beside the mapping")
        view.flush()
    os.fsync(fd)
    with open(f"{b}/file", "rb") as other:
        same_bytes(other.read(), bytes(content), "the other mount's read")

    # The page that holds the end of the file is zero after it, and what is put there stays there.
    with mmap.mmap(fd, SIZE) as view:
        content[-1:] = b"E"
        view[SIZE - 1 : SIZE] = b"E"
    os.fsync(fd)
    equal(os.stat(f"{a}/file").st_size, SIZE, "size after a write through the last page")

    # Two processes, one shared mapping.
    with mmap.mmap(fd, SIZE) as view:
        def child():
            view[4096:8192] = b"c" * 4096
        joined(in_child(child), "the child that writes through the mapping")
        content[4096:8192] = b"c" * 4096
        same_bytes(view[:], bytes(content), "the parent's view")
        view.flush()

    # A private mapping changes nothing.
    with mmap.mmap(fd, SIZE, access=mmap.ACCESS_COPY) as view:
        view[0:100] = b"p" * 100
    os.fsync(fd)
    drop_caches()
    with open(f"{a}/file", "rb") as again:
        same_bytes(again.read(), bytes(content), "the file past the cache")

    # The other mount writes; a new mapping here sees it.
    with open(f"{b}/file", "r+b") as other:
        other.seek(2 << 20)
        other.write(b"from the other mount")
    content[2 << 20 : (2 << 20) + 20] = b"from the other mount"
    os.close(fd)
    fd = os.open(f"{a}/file", os.O_RDONLY)
    with mmap.mmap(fd, SIZE, prot=mmap.PROT_READ) as view:
        same_bytes(view[:], bytes(content), "a mapping after the other mount's write")
    os.close(fd)


run(main)
