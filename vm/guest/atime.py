"""Reads move the access time as relatime does: atime.py DIR DIR2.

DIR2 is the same directory, mounted by another client: what it sees is what the server says.
"""

import os
import sys
import time

from check import data, drop_caches, equal, expect, note, run

LARGE, SMALL = 3 << 20, 3_000


def seen(here, there, name):
    """Access, modification and change times: here, and equal to what the other client sees."""
    drop_caches()
    mine, others = os.lstat(f"{here}/{name}"), os.lstat(f"{there}/{name}")
    equal(mine.st_atime_ns, others.st_atime_ns, f"access time of {name} at both clients")
    return mine.st_atime_ns, (mine.st_mtime_ns, mine.st_ctime_ns)


def read_file(path):
    with open(path, "rb") as file:
        while file.read(1 << 20):
            pass


def read(here):
    drop_caches()
    read_file(f"{here}/large")
    read_file(f"{here}/small")
    os.listdir(f"{here}/dir")
    os.readlink(f"{here}/link")


def main():
    here, there = sys.argv[1:]
    os.mkdir(f"{here}/dir")
    for name, length in [("large", LARGE), ("small", SMALL), ("dir/entry", 1)]:
        with open(f"{here}/{name}", "wb") as file:
            file.write(data(length, length))
    os.symlink("large", f"{here}/link")
    names = ["large", "small", "dir", "link"]
    time.sleep(1.1)
    new = {name: seen(here, there, name) for name in names}
    read(here)
    once = {name: seen(here, there, name) for name in names}
    for name in names:
        expect(once[name][0] > new[name][0], f"a read moves the access time of {name}")
        equal(once[name][1], new[name][1], f"other times of {name} after a read")
    time.sleep(2.1)
    read(here)
    for name in names:
        equal(seen(here, there, name), once[name], f"times of {name} after a second read")
    for name in ["large", "small"]:
        os.utime(f"{here}/{name}", (981_158_400, 981_158_400))
        equal(seen(here, there, name)[0], 981_158_400 * 10**9, f"access time of {name} as it was set")
        read_file(f"{there}/{name}")
        expect(seen(here, there, name)[0] > once[name][0], f"a read at the other client moves it for {name}")
    note("files of 3 MB and 3 kB, a directory, a symbolic link")


run(main)
