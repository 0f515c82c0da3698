"""Locks of NFSv3 over a restart of the server: nfs3locks.py V3-DIR V4-DIR.

The host is told by the file "step1" in the job directory, and answers with "go" when the server is dead.
"""

import fcntl
import os
import sys
import time

from check import await_host, expect, fails_with, note, run, tell
from locks import CONFLICT, WRITE, lock

# The grace period takes a lease, and twice as long at most.
GRACE_S_MAX = 200


def main():
    v3, v4 = sys.argv[1:3]
    held = os.open(f"{v3}/held", os.O_CREAT | os.O_RDWR, 0o644)
    other = os.open(f"{v4}/held", os.O_RDWR)
    lock(held, WRITE, 100, 50)
    fails_with(CONFLICT, "a lock of NFSv4 under one of NFSv3", lock, other, WRITE, 120, 1)
    tell("step1")
    await_host("go")

    began = time.monotonic()
    lock(other, WRITE, 0, 100, wait=True)
    took = time.monotonic() - began
    note(f"new locks came {took:.1f} s after the kill")
    expect(took < GRACE_S_MAX, f"no lock for {took:.0f} s")
    fails_with(CONFLICT, "a lock under one that was reclaimed", lock, other, WRITE, 149, 1)
    os.close(held)
    lock(other, WRITE, 100, 50, wait=True)
    fcntl.lockf(other, fcntl.LOCK_UN)
    os.close(other)


run(main)
