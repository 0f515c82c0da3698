"""One of two clients that share a file: pair.py 0|1 FILE. The host gives the turns."""

import errno
import fcntl
import os
import sys

from check import await_host, equal, fails_with, run, tell


def first(path):
    with open(path, "w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        file.write("before")
        file.flush()
        os.fsync(file.fileno())
        tell("locked")
        await_host("release")
        file.seek(0)
        file.write("after!")
        file.flush()
        fcntl.lockf(file, fcntl.LOCK_UN)


def second(path):
    await_host("try")
    with open(path, "r+") as file:
        fails_with([errno.EAGAIN, errno.EACCES], "a lock that the other guest holds",
                   fcntl.lockf, file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        equal(os.pread(file.fileno(), 10, 0), b"before", "what the other guest had synced")
        tell("refused")
        fcntl.lockf(file, fcntl.LOCK_EX)
        equal(os.pread(file.fileno(), 10, 0), b"after!", "what the other guest wrote last")
        fcntl.lockf(file, fcntl.LOCK_UN)
    os.unlink(path)


run(lambda: (first, second)[int(sys.argv[1])](sys.argv[2]))
