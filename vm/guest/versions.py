"""Every pair of versions on one directory: versions.py VERSION=DIR... One client of each version, all in one guest."""

import itertools
import os
import signal
import sys
import time

from check import data, equal, expect, in_child, joined, note, run, same_bytes
from locks import READ, UNLOCK, WRITE, blocker, conflicts, lock

LENGTHS = (1, 5000, 200_000)
WAIT_S_MAX = 20


def get(path):
    with open(path, "rb") as file:
        return file.read()


def closed_file(a, b, name):
    """What one has written and closed the other reads, though a holder of a delegation may not have sent it yet."""
    for length in LENGTHS:
        content = data(f"{name}{length}", length)
        with open(f"{a}/{name}", "wb") as file:
            file.write(content)
        equal(os.stat(f"{b}/{name}").st_size, length, "the size by the other")
        same_bytes(get(f"{b}/{name}"), content, "what one wrote, by the other")
        with open(f"{b}/{name}", "r+b") as file:
            file.seek(length // 2)
            file.write(b"changed")
        changed = content[: length // 2] + b"changed" + content[length // 2 + 7 :]
        same_bytes(get(f"{a}/{name}"), changed, "what the other changed")
        os.truncate(f"{b}/{name}", length // 2)
        equal(os.stat(f"{a}/{name}").st_size, length // 2, "the size after the other cut it")
    os.unlink(f"{b}/{name}")
    expect(not os.path.exists(f"{a}/{name}"), "what the other removed is still there")


def open_file(a, b, name):
    """A file that one has open for writing, and that others change meanwhile."""
    with open(f"{a}/{name}", "w+b", buffering=0) as held:
        held.write(b"first")
        os.fsync(held.fileno())
        with open(f"{b}/{name}", "r+b", buffering=0) as other:
            same_bytes(other.read(), b"first", "what the holder has written")
            other.write(b" second")
            os.fsync(other.fileno())
        equal(os.stat(f"{a}/{name}").st_size, 12, "the size after the other's write")
    same_bytes(get(f"{a}/{name}"), b"first second", "both writes")
    os.chmod(f"{b}/{name}", 0o640)
    equal(os.stat(f"{a}/{name}").st_mode & 0o777, 0o640, "the mode that the other set")
    os.unlink(f"{a}/{name}")


def locks(a, b, name):
    """Locks of one are in the way of the other, and a wait ends when they go."""
    fa = os.open(f"{a}/{name}", os.O_CREAT | os.O_RDWR, 0o644)
    fb = os.open(f"{b}/{name}", os.O_RDWR)
    lock(fa, WRITE, 10, 10)
    conflicts(fb, READ, 19, 1, "a read lock under a write lock")
    equal(blocker(fb, WRITE, 0, 0), (WRITE, 10, 10), "the lock in the way")
    lock(fb, WRITE, 20, 5)
    lock(fa, READ, 10, 10)
    lock(fb, READ, 10, 10)
    conflicts(fa, WRITE, 10, 10, "an upgrade under another's read lock")
    lock(fb, UNLOCK, 0, 0)
    lock(fa, WRITE, 10, 10)

    def child():
        fd = os.open(f"{b}/{name}", os.O_RDWR)
        lock(fd, WRITE, 15, 1, wait=True)

    waiting = in_child(child)
    time.sleep(0.5)
    began = time.monotonic()
    lock(fa, UNLOCK, 0, 0)
    joined(waiting, "the process that waits for the lock")
    took = time.monotonic() - began
    expect(took < WAIT_S_MAX, f"the waiting lock came {took:.1f} s after the unlock")
    os.close(fa)
    os.close(fb)
    os.unlink(f"{a}/{name}")
    return took


def main():
    signal.alarm(900)
    places = dict(word.split("=", 1) for word in sys.argv[1:])
    for (a, here), (b, there) in itertools.permutations(places.items(), 2):
        try:
            closed_file(here, there, f"closed-{a}-{b}")
            open_file(here, there, f"open-{a}-{b}")
            took = locks(here, there, f"locks-{a}-{b}")
        except BaseException:
            note(f"first {a}, then {b}")
            raise
        note(f"{a} and {b}: the waiting lock came after {took:.1f} s")


run(main)
