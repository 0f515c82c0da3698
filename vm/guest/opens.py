"""What it takes to unpack small files, with and without RFC 9754: opens.py DIR DIR2 MNT MNT2 VERS.

DIR2 is the same directory, mounted with the other minor version by another client.
"""

import os
import sys
import time

from check import data, drop_caches, equal, expect, note, run
from mountstats import parse

FILES = 100
# 3 February 2001, and a fraction that only nanoseconds keep.
OLD_NS = 981_158_400_123_456_789
# A kernel that asks sends CLOSE only where it got no delegation.
FEW = FILES // 10


def unpack(directory):
    """What tar does for each file; in folders, as no archive is flat."""
    os.mkdir(directory)
    for number in range(FILES):
        fd = os.open(f"{directory}/f{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        os.write(fd, data(number, 3000))
        os.utime(fd, ns=(OLD_NS, OLD_NS + number))
        os.close(fd)


def counted(work, mount, what):
    before = parse(mount)["operations"]
    work()
    after = parse(mount)["operations"]
    found = {name: after[name] - before.get(name, 0) for name in after}
    found = {name: count for name, count in found.items() if count}
    note(f"{what}: {sum(found.values())} requests, {found}")
    return found


def times_are_kept(directory, what):
    for number in range(FILES):
        found = os.stat(f"{directory}/f{number}")
        equal((found.st_mtime_ns, found.st_size), (OLD_NS + number, 3000), f"time and size of f{number}, {what}")


def asks(vers):
    release = tuple(int(part) for part in os.uname().release.split(".")[:2])
    return vers == "4.2" and release >= (6, 12)


def main():
    mine, other, mnt, mnt2, vers = sys.argv[1:]
    counts = {}
    for directory, mount, version in [(mine, mnt, vers), (other, mnt2, {"4.1": "4.2", "4.2": "4.1"}[vers])]:
        name = f"{directory}/unpacked-{version}"
        counts[version] = counted(lambda: unpack(name), mount, f"unpack with {version}")
        times_are_kept(name, f"with {version}, as its maker sees them")
    for version in counts:
        for directory in (mine, other):
            times_are_kept(f"{directory}/unpacked-{version}", f"made with {version}")
    drop_caches()
    for version in counts:
        for directory in (mine, other):
            times_are_kept(f"{directory}/unpacked-{version}", f"made with {version}, past the caches")
    if not asks("4.2"):
        note("this kernel does not ask for what RFC 9754 has")
        return
    for name in ["CLOSE", "SETATTR"]:
        with_, without = counts["4.2"].get(name, 0), counts["4.1"].get(name, 0)
        expect(with_ <= FEW, f"{with_} {name} with RFC 9754")
        expect(without >= FILES, f"{without} {name} without")
    written_later(f"{mine}/unpacked-4.2/f0" if vers == "4.2" else f"{other}/unpacked-4.2/f0")


def written_later(path):
    """An old time is that of the file until it is written to."""
    with open(path, "ab") as file:
        file.write(b"more")
    drop_caches()
    expect(abs(os.stat(path).st_mtime - time.time()) < 3600, "time after a later write")


run(main)
