"""Checks of what df asks for: df.py DIR."""

import os
import subprocess
import sys

from check import data, expect, note, run

MIB = 1 << 20
FILE = 32 * MIB


def room(path):
    found = os.statvfs(path)
    return found.f_bfree * found.f_frsize


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


run(main)
