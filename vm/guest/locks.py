"""Checks of byte-range locks on two mounts of one directory: locks.py DIR DIR2."""

import errno
import fcntl
import os
import signal
import struct
import sys
import time

from check import equal, expect, fails_with, in_child, joined, note, run

READ, WRITE, UNLOCK = fcntl.F_RDLCK, fcntl.F_WRLCK, fcntl.F_UNLCK
CONFLICT = (errno.EAGAIN, errno.EACCES)
HELD_S = 1.5
# The client asks again after 1, 2, 4 ... seconds unless the server calls back.
WAIT_S_MAX = 20
ROUNDS = 40
# struct flock: type, whence, start, length, pid.
FLOCK = "hhqqi4x"


def lock(fd, kind, start, length, wait=False):
    command = fcntl.F_SETLKW if wait else fcntl.F_SETLK
    fcntl.fcntl(fd, command, struct.pack(FLOCK, kind, os.SEEK_SET, start, length, 0))


def blocker(fd, kind, start, length):
    """Type, start and length of the lock in the way; the type is UNLOCK when there is none."""
    asked = struct.pack(FLOCK, kind, os.SEEK_SET, start, length, 0)
    kind, _, start, length, _ = struct.unpack(FLOCK, fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    return kind, start, length


def conflicts(fd, kind, start, length, what):
    fails_with(CONFLICT, what, lock, fd, kind, start, length)


def ranges(fa, fb):
    lock(fa, WRITE, 0, 100)
    conflicts(fb, WRITE, 50, 10, "a write lock inside another's")
    conflicts(fb, READ, 99, 1, "a read lock on the last byte of another's write lock")
    lock(fb, WRITE, 100, 100)
    equal(blocker(fb, WRITE, 0, 100), (WRITE, 0, 100), "the lock that is in the way")
    equal(blocker(fb, WRITE, 500, 10)[0], UNLOCK, "a free range")

    lock(fa, UNLOCK, 40, 20)
    lock(fb, WRITE, 40, 20)
    conflicts(fb, WRITE, 39, 1, "the part before the unlocked middle")
    conflicts(fb, WRITE, 60, 1, "the part after the unlocked middle")
    lock(fa, UNLOCK, 0, 0)
    lock(fb, UNLOCK, 0, 0)
    lock(fb, WRITE, 0, 0)
    conflicts(fa, READ, 1 << 40, 1, "a byte far away under a lock to the end")
    lock(fb, UNLOCK, 0, 0)


def sharing(fa, fb):
    lock(fa, READ, 0, 10)
    lock(fb, READ, 0, 10)
    conflicts(fa, WRITE, 0, 10, "an upgrade under another's read lock")
    lock(fb, UNLOCK, 0, 10)
    lock(fa, WRITE, 0, 10)
    lock(fa, READ, 0, 10)
    lock(fb, READ, 0, 10)
    lock(fa, UNLOCK, 0, 0)
    lock(fb, UNLOCK, 0, 0)


def waiting(fa, path_b):
    """A process that waits gets the lock soon after it is free, and not before."""
    lock(fa, WRITE, 0, 10)

    def child():
        fd = os.open(path_b, os.O_RDWR)
        began = time.monotonic()
        lock(fd, WRITE, 5, 10, wait=True)
        took = time.monotonic() - began
        note(f"the waiting lock came after {took:.1f} s")
        expect(took >= HELD_S * 0.8, f"the lock came after {took:.2f} s, while it was held")
        expect(took < WAIT_S_MAX, f"the lock came only after {took:.1f} s")

    pid = in_child(child)
    time.sleep(HELD_S)
    lock(fa, UNLOCK, 0, 10)
    joined(pid, "the process that waits for a lock")
    # The child's end gave the lock back.
    lock(fa, WRITE, 0, 20)
    lock(fa, UNLOCK, 0, 0)


def interrupted(fa, path_b):
    """A wait that is interrupted leaves no lock behind. By NLM it is taken back behind the end of its process."""
    lock(fa, WRITE, 0, 10)

    def child():
        fd = os.open(path_b, os.O_RDWR)
        lock(fd, WRITE, 0, 10, wait=True)

    pid = in_child(child)
    time.sleep(0.5)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    lock(fa, UNLOCK, 0, 10)
    began = time.monotonic()
    while True:
        try:
            lock(fa, WRITE, 0, 10)
            break
        except BlockingIOError:
            expect(time.monotonic() - began < WAIT_S_MAX, "an interrupted wait left a lock")
            time.sleep(0.1)
    lock(fa, UNLOCK, 0, 10)


def processes(path_a, fb):
    """Two processes of one mount conflict; a killed one's locks are gone."""
    ready, tell = os.pipe()

    def child():
        fd = os.open(path_a, os.O_RDWR)
        lock(fd, WRITE, 0, 10)
        os.write(tell, b"x")
        signal.pause()

    pid = in_child(child)
    os.read(ready, 1)
    mine = os.open(path_a, os.O_RDWR)
    conflicts(mine, WRITE, 0, 10, "another process of the same mount")
    conflicts(fb, WRITE, 0, 10, "another process of another mount")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    lock(fb, WRITE, 0, 10)
    lock(fb, UNLOCK, 0, 10)
    os.close(mine)


def counter(path_a, path_b):
    """Increments under a lock from both mounts: none is lost, so data follow the lock."""
    with open(path_a, "r+b") as file:
        file.truncate(0)
        file.write(b"%08d" % 0)

    def work(path):
        fd = os.open(path, os.O_RDWR)
        for _ in range(ROUNDS):
            lock(fd, WRITE, 0, 8, wait=True)
            value = int(os.pread(fd, 8, 0))
            os.pwrite(fd, b"%08d" % (value + 1), 0)
            lock(fd, UNLOCK, 0, 8)
            # A waiting client sleeps for a second and more: give it a gap to find.
            time.sleep(0.01)

    pids = [in_child(lambda path=path: work(path)) for path in (path_a, path_b)]
    for pid in pids:
        joined(pid, "a process that counts")
    with open(path_a, "rb") as file:
        equal(int(file.read()), 2 * ROUNDS, "increments")


def whole_file(path_a, path_b):
    """flock, which NFS makes a lock of the whole file."""
    fa, fb = os.open(path_a, os.O_RDWR), os.open(path_b, os.O_RDWR)
    fcntl.flock(fa, fcntl.LOCK_EX)
    fails_with(CONFLICT, "flock under flock", fcntl.flock, fb, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(fa, fcntl.LOCK_UN)
    fcntl.flock(fb, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fb)
    fcntl.flock(fa, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fa)


def main():
    path_a, path_b = f"{sys.argv[1]}/file", f"{sys.argv[2]}/file"
    fa = os.open(path_a, os.O_CREAT | os.O_RDWR, 0o644)
    fb = os.open(path_b, os.O_RDWR)
    ranges(fa, fb)
    sharing(fa, fb)
    waiting(fa, path_b)
    interrupted(fa, path_b)
    processes(path_a, fb)
    os.close(fa)
    os.close(fb)
    counter(path_a, path_b)
    whole_file(path_a, path_b)


if __name__ == "__main__":
    run(main)
