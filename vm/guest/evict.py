"""A client that is evicted in the middle of its work.

    evict.py DIR SECOND

Holds a file with a lock, one without, and one that is only read. SECOND is the directory by another client, which has the
first file open, so that the lock is at the server and not under a delegation. The host evicts the client when it is told "held".
"""

import fcntl
import os
import sys

from check import await_host, drop_caches, equal, expect, note, run, tell

BLOCK = bytes(range(256)) * 16


def outcome(work):
    """What becomes of it: "done", or the error's name."""
    try:
        work()
    except OSError as error:
        return os.strerror(error.errno)
    return "done"


def written(fd, block):
    os.pwrite(fd, block, 0)
    os.fsync(fd)


def main():
    top, second = sys.argv[1:]
    paths = {name: f"{top}/{name}" for name in ("locked", "plain", "read")}
    for path in paths.values():
        with open(path, "wb") as file:
            file.write(BLOCK)
    fds = {name: os.open(path, os.O_RDONLY if name == "read" else os.O_RDWR) for name, path in paths.items()}
    watcher = os.open(f"{second}/locked", os.O_RDWR)
    fcntl.lockf(fds["locked"], fcntl.LOCK_EX)
    for name in ("locked", "plain"):
        written(fds[name], BLOCK)
    tell("held")
    await_host("evicted")
    other = BLOCK[::-1]
    plain = outcome(lambda: written(fds["plain"], other))
    equal(plain, "done", "a write to a file without a lock")
    drop_caches()
    equal(os.pread(fds["read"], len(BLOCK), 0), BLOCK, "a file that was only read")
    locked = outcome(lambda: written(fds["locked"], other))
    note(f"a write to the file whose lock is lost: {locked}")
    os.close(watcher)
    for fd in fds.values():
        note(f"close: {outcome(lambda fd=fd: os.close(fd))}")
    drop_caches()
    with open(paths["plain"], "rb") as file:
        equal(file.read(), other, "the file without a lock")
    with open(paths["locked"], "rb+") as file:
        now = file.read()
        equal(now, other if locked == "done" else BLOCK, "the file whose lock was lost")
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.write(BLOCK)
    expect(os.listdir(top), "the directory is empty")


run(main)
