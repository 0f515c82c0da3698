"""Checks of what df asks for: df.py DIR."""

import errno
import os
import subprocess
import sys
import time

from check import data, equal, expect, fallocate, note, run

MIB = 1 << 20
FILE = 32 * MIB
RESERVED = 64 * MIB
# A removal begins with the next tick of the metadata server, a second at most; then come a call and a heartbeat. The rest is for a busy machine.
FRESH_S = 4.0
ATTEMPTS = 5


def room(path):
    found = os.statvfs(path)
    return found.f_bfree * found.f_frsize


def reserve(file):
    """fallocate, or where the server has none (NFSv4.1) bytes."""
    try:
        fallocate(file.fileno(), 0, 0, RESERVED)
    except OSError as error:
        equal(error.errno, errno.EOPNOTSUPP, "the error of fallocate")
        file.write(data(2, RESERVED))
        file.flush()
        os.fsync(file.fileno())


def changed(path, holds, what):
    """Whether the room changes in time."""
    began = time.monotonic()
    while not holds(room(path)):
        if time.monotonic() - began > FRESH_S:
            note(f"not seen within {FRESH_S} s: {what}")
            return False
        time.sleep(0.1)
    note(f"{what}: {time.monotonic() - began:.1f} s")
    return True


def is_fresh(d):
    """Whether a reservation and its removal show in what df says."""
    before = room(d)
    with open(f"{d}/reserved", "wb") as file:
        reserve(file)
    taken = changed(d, lambda now: before - now >= RESERVED // 2, "less is free after a reservation")
    before = room(d)
    os.unlink(f"{d}/reserved")
    given = changed(d, lambda now: now - before >= RESERVED // 2, "more is free after unlink")
    return taken and given


def main():
    d = sys.argv[1]
    found = os.statvfs(d)
    expect(found.f_blocks > 0, "the file system has no size")
    expect(found.f_bfree <= found.f_blocks, "more is free than there is")
    expect(found.f_bavail <= found.f_bfree, "more is available than is free")
    expect(found.f_files > 0 and found.f_ffree <= found.f_files, "the count of files makes no sense")
    expect(found.f_namemax >= 255, f"names may have {found.f_namemax} bytes")
    for line in subprocess.run(["df", "-h", d], capture_output=True, text=True).stdout.splitlines():
        note(line)
    before = room(d)
    with open(f"{d}/file", "wb") as file:
        file.write(data(1, FILE))
        file.flush()
        os.fsync(file.fileno())
    # Others may use the same disk: only ask that the free room is a number that moves sensibly.
    after = room(d)
    note(f"free before {before // MIB} MiB, after writing {FILE // MIB} MiB {after // MIB} MiB")
    used = os.stat(f"{d}/file").st_blocks * 512
    expect(used >= FILE // 2, f"a file of {FILE} random bytes says that it takes {used}")
    # Others that write to the same disk may hide it, but not each time.
    expect(any(is_fresh(d) for _ in range(ATTEMPTS)), f"df shows no change within {FRESH_S} s, {ATTEMPTS} times")


run(main)
