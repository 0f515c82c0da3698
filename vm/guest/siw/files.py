"""Files whose bytes follow from their names: writes them, or reads them and compares.

    files.py DIR write|read

Sizes lie around those at which RPC-over-RDMA changes its ways: what fits inline (4096 octets with its headers), one
segment, one request (1 MiB), more than one stripe. Names, links and attributes go along.
"""

import hashlib
import os
import sys

SIZES = [
    0, 1, 3, 100, 1000, 2700, 3000, 3500, 3900, 4000, 4095, 4096, 4097, 5000, 8191, 65535, 65536, 65537, 262144,
    1048575, 1048576, 1048577, 3000001,
]
LARGE_BYTES = 9 * 1048576 + 4321
NAMES = 300


def content(name, size):
    """Bytes that belong to this name and to no other."""
    return hashlib.shake_128(name.encode()).digest(size)


def files(directory):
    for size in SIZES:
        yield os.path.join(directory, f"size-{size}"), size
    yield os.path.join(directory, "large"), LARGE_BYTES


def many(directory):
    """A directory whose listing needs several replies, with names of all lengths."""
    return [os.path.join(directory, "many", f"{n:03}" + "n" * (n % 250)) for n in range(NAMES)]


def write(directory):
    for path, size in files(directory):
        with open(path, "wb") as file:
            file.write(content(os.path.basename(path), size))
    os.mkdir(os.path.join(directory, "many"))
    for path in many(directory):
        open(path, "wb").close()
    # A target that no inline reply holds.
    os.symlink("x" * 4000, os.path.join(directory, "link"))
    path = os.path.join(directory, "direct")
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_SYNC)
    for part in range(8):
        os.pwrite(descriptor, content(f"direct-{part}", 30000), part * 30000)
    os.close(descriptor)


def read(directory):
    for path, size in files(directory):
        with open(path, "rb") as file:
            data = file.read()
        if data != content(os.path.basename(path), size):
            raise SystemExit(f"{path} has other bytes than were written")
    names = sorted(os.listdir(os.path.join(directory, "many")))
    if names != sorted(os.path.basename(path) for path in many(directory)):
        raise SystemExit(f"{len(names)} names instead of {NAMES}")
    if os.readlink(os.path.join(directory, "link")) != "x" * 4000:
        raise SystemExit("the link points elsewhere")
    with open(os.path.join(directory, "direct"), "rb") as file:
        for part in range(8):
            if file.read(30000) != content(f"direct-{part}", 30000):
                raise SystemExit(f"part {part} of what was written through is wrong")
    print(f"{len(SIZES) + 2} files of up to {LARGE_BYTES} bytes and {NAMES} names are as they were written")


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[2]](sys.argv[1])
