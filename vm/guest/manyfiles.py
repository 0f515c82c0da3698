"""Many files in one directory: manyfiles.py DIR COUNT."""

import os
import random
import sys
import time

from check import drop_caches, equal, fails_with, note, run

import errno

LOOKS = 1000


def phase(what, count, work):
    began = time.monotonic()
    result = work()
    took = time.monotonic() - began
    note(f"{what}: {took:.1f} s, {took / max(count, 1) * 1e6:.0f} us each")
    return result


def main():
    d, count = f"{sys.argv[1]}/many", int(sys.argv[2])
    os.mkdir(d)
    wanted = {f"file-{number:07}" for number in range(count)}

    def create():
        for name in wanted:
            os.close(os.open(f"{d}/{name}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))

    def listing():
        found = os.listdir(d)
        equal(len(found), count, "entries listed")
        equal(set(found) == wanted, True, "the names listed are those made")

    def look():
        for name in random.Random(1).sample(sorted(wanted), min(LOOKS, count)):
            equal(os.stat(f"{d}/{name}").st_size, 0, f"size of {name}")
        fails_with([errno.ENOENT], "a name that is not there", os.stat, f"{d}/file-x")

    def remove_half():
        """Removing while listing: every name is seen once, whatever goes meanwhile."""
        seen = []
        with os.scandir(d) as entries:
            for number, entry in enumerate(entries):
                seen.append(entry.name)
                if number % 2 == 0:
                    os.unlink(entry.path)
        equal(len(seen), count, "entries seen while removing")
        equal(len(set(seen)), count, "different entries seen while removing")

    def remove_rest():
        for name in os.listdir(d):
            os.unlink(f"{d}/{name}")

    phase("create", count, create)
    phase("list", count, listing)
    drop_caches()
    phase("list past the cache", count, listing)
    drop_caches()
    phase("stat", min(LOOKS, count), look)
    phase("remove every other one while listing", count // 2, remove_half)
    phase("remove the rest", count // 2, remove_rest)
    equal(os.listdir(d), [], "entries left")
    os.rmdir(d)


run(main)
