"""Every pair of versions on one directory: versions.py VERSION=DIR... One client of each version, all in one guest.

versions.py layouts DIR OTHER...: DIR by a client with layouts, and the same by clients without them. There may be one client with
layouts: two of one guest share a connection to a data server, which refuses the second one, and Linux ends an fsync then before all is
written.
"""

import itertools
import os
import signal
import sys
import time

from check import data, drop_caches, equal, expect, in_child, joined, note, run, same_bytes
from locks import READ, UNLOCK, WRITE, blocker, conflicts, lock
from mountstats import parse

LENGTHS = (1, 5000, 200_000)
# More than files have for which there is no layout.
LARGE = 3 << 20
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


def count(directory, what):
    """How often the mount has sent an operation, or used a layout."""
    stats = parse(os.path.dirname(directory))
    return stats.get(what, stats["operations"].get(what, 0))


def delegated_file(a, b, name):
    """A file that one keeps delegated for writing after its close: what the other does calls it back."""
    content = data(name, 5000)
    # The first open of an owner of NFSv4.0 is to be confirmed, so it is not delegated.
    for work in ("confirmed", "read", "write", "cut", "remove"):
        path = f"{name}-{work}"
        with open(f"{a}/{path}", "wb") as file:
            file.write(content)
        before = count(a, "DELEGRETURN")
        if work in ("confirmed", "read"):
            same_bytes(get(f"{b}/{path}"), content, f"{path} by the other")
        elif work == "write":
            with open(f"{b}/{path}", "r+b") as file:
                file.write(b"changed")
            same_bytes(get(f"{a}/{path}"), b"changed" + content[7:], f"{path}, changed by the other")
        elif work == "cut":
            os.truncate(f"{b}/{path}", 100)
            same_bytes(get(f"{a}/{path}"), content[:100], f"{path}, cut by the other")
        else:
            os.unlink(f"{b}/{path}")
            expect(not os.path.exists(f"{a}/{path}"), f"{path} is still there")
        if work != "confirmed":
            equal(count(a, "DELEGRETURN") - before, 1, f"delegations that came back, {path}")


def layout_file(a, b, name):
    """A file that one writes and reads by layouts, and the other through the metadata server."""
    content = data(name, LARGE)
    by_layout = count(a, "pnfs_writes")
    with open(f"{a}/{name}", "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        same_bytes(get(f"{b}/{name}"), content, "what is being written by a layout")
    expect(count(a, "pnfs_writes") > by_layout, "nothing was written by a layout")
    with open(f"{b}/{name}", "r+b") as file:
        file.seek(LARGE // 2)
        file.write(b"changed")
    changed = content[: LARGE // 2] + b"changed" + content[LARGE // 2 + 7 :]
    drop_caches()
    by_layout = count(a, "pnfs_reads")
    same_bytes(get(f"{a}/{name}"), changed, "what the other changed, by a layout")
    expect(count(a, "pnfs_reads") > by_layout, "nothing was read by a layout")
    held = os.open(f"{a}/{name}", os.O_RDWR)
    os.pwrite(held, b"first", 0)
    os.fsync(held)
    os.truncate(f"{b}/{name}", 10_000)
    equal(os.fstat(held).st_size, 10_000, "the size after the other cut it under a layout")
    os.pwrite(held, b"end", 9_997)
    os.close(held)
    after = b"first" + changed[5:9_997] + b"end"
    same_bytes(get(f"{b}/{name}"), after, "what was written by a layout after the cut")
    os.unlink(f"{b}/{name}")


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
    if sys.argv[1] == "layouts":
        first, *others = sys.argv[2:]
        for number, other in enumerate(others):
            layout_file(first, other, f"layout-{number}")
        return
    places = dict(word.split("=", 1) for word in sys.argv[1:])
    for (a, here), (b, there) in itertools.permutations(places.items(), 2):
        try:
            closed_file(here, there, f"closed-{a}-{b}")
            open_file(here, there, f"open-{a}-{b}")
            took = locks(here, there, f"locks-{a}-{b}")
            if a != "3":
                delegated_file(here, there, f"delegated-{a}-{b}")
        except BaseException:
            note(f"first {a}, then {b}")
            raise
        note(f"{a} and {b}: the waiting lock came after {took:.1f} s")


run(main)
