"""Checks of O_DIRECT over holes and at the end of the file: direct.py DIR."""

import os
import sys

from check import data, direct_read, direct_write, drop_caches, equal, run, same_bytes

MIB = 1 << 20
SIZE = 10 * MIB + 123
# Data in the middle of a hole, so that whole stripes before and after it do not exist.
OFFSET, LENGTH = 4 * MIB + 4096, 3 * 4096


def main():
    path = f"{sys.argv[1]}/direct"
    fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_DIRECT, 0o644)
    equal(direct_read(fd, 4096, 0), b"", "read of an empty file")
    os.ftruncate(fd, SIZE)
    model = bytearray(SIZE)
    same_bytes(direct_read(fd, SIZE, 0), bytes(model), "one read of a file that is all hole")

    direct_write(fd, data(1, LENGTH), OFFSET)
    model[OFFSET : OFFSET + LENGTH] = data(1, LENGTH)
    same_bytes(direct_read(fd, 2 * MIB, 3 * MIB), bytes(model[3 * MIB : 5 * MIB]), "hole, data, hole")
    same_bytes(direct_read(fd, 8 * MIB, 0), bytes(model[: 8 * MIB]), "from a hole into data")

    for what, offset, length in [
        ("over the end", 10 * MIB, 4096),
        ("far over the end", 9 * MIB, 4 * MIB),
        ("the last byte", SIZE - 1, 4096),
        ("at the end", SIZE, 4096),
        ("beyond the end", SIZE + MIB, 4096),
        ("unaligned", 4 * MIB + 4095, 8193),
        ("one byte", OFFSET, 1),
    ]:
        got = direct_read(fd, length, offset)
        same_bytes(got, bytes(model[offset : offset + length]), f"read {what}")

    # Written beyond the end: the gap is a hole.
    far = 13 * MIB + 511
    direct_write(fd, data(2, 5000), far)
    model.extend(bytes(far - len(model)))
    model.extend(data(2, 5000))
    equal(os.fstat(fd).st_size, len(model), "size after a write beyond the end")
    same_bytes(direct_read(fd, len(model) + 4096, 0), bytes(model), "the whole file, direct")

    # Direct and buffered see each other.
    plain = os.open(path, os.O_RDWR)
    same_bytes(os.pread(plain, 8192, OFFSET), bytes(model[OFFSET : OFFSET + 8192]), "buffered read")
    os.pwrite(plain, b"buffered", 2 * MIB + 5)
    model[2 * MIB + 5 : 2 * MIB + 13] = b"buffered"
    same_bytes(direct_read(fd, 4096, 2 * MIB), bytes(model[2 * MIB : 2 * MIB + 4096]),
               "direct read of what was written buffered")
    direct_write(fd, b"d" * 4096, OFFSET)
    model[OFFSET : OFFSET + 4096] = b"d" * 4096
    same_bytes(os.pread(plain, 4096, OFFSET), b"d" * 4096, "buffered read of a direct write")
    os.close(plain)
    os.close(fd)

    # O_DIRECT with O_SYNC, one lone write at a time.
    fd = os.open(path, os.O_RDWR | os.O_DIRECT | os.O_SYNC)
    for number in range(8):
        offset = number * MIB + 17
        direct_write(fd, data(number, 1000), offset)
        model[offset : offset + 1000] = data(number, 1000)
    os.close(fd)
    drop_caches()
    with open(path, "rb") as file:
        same_bytes(file.read(), bytes(model), "the whole file past the cache")


run(main)
