"""A write whose LAYOUTCOMMIT never arrives: fsynccrash.py DIR DIR2 MIB (DIR2 is DIR by a mount of its own).

The host stops the MDS before the data leave and kills it when the data servers have them. It cannot always be
quick enough: then it says "againN", and another file is tried.
"""

import ctypes
import os
import sys
import threading

from check import await_host, data, drop_caches, equal, expect, libc, note, run, same_bytes, tell, told

MIB = 1 << 20
HEAD = 4 * MIB
# The last byte is neither on a page's nor on a stripe's boundary.
TAIL = 1234
SYNC_FILE_RANGE_WRITE = 2
SYNC_FILE_RANGE_WAIT_AFTER = 4


def write_back(fd):
    """Sends what is dirty by UNSTABLE WRITEs. A plain fsync may ask for FILE_SYNC, which a data server does not answer
    before the MDS has heard of it (and must not be answered in this test)."""
    flags = SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER
    done = libc.sync_file_range(fd, ctypes.c_int64(0), ctypes.c_int64(0), flags)
    expect(done == 0, f"sync_file_range: {os.strerror(ctypes.get_errno())}")


def sync(fd, failures):
    try:
        write_back(fd)
        # Now a COMMIT at each data server, then the LAYOUTCOMMIT that nobody answers.
        os.fsync(fd)
    except Exception as failure:  # Told by the main thread.
        failures.append(failure)


def attempt(path, number, content):
    """Returns whether the MDS was killed in time."""
    fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    # A synced head: the layout, and sessions with all data servers, are there.
    equal(os.pwrite(fd, content[:HEAD], 0), HEAD, "bytes of the head")
    os.fsync(fd)
    tell(f"begin{number}")
    await_host(f"counted{number}")
    equal(os.pwrite(fd, content[HEAD:], HEAD), len(content) - HEAD, "bytes written")
    tell(f"ready{number}")
    await_host(f"go{number}")
    failures = []
    writer = threading.Thread(target=sync, args=(fd, failures), daemon=True)
    writer.start()
    await_host("killed", f"again{number}")
    writer.join()
    equal(failures, [], "errors of the fsync")
    os.close(fd)
    return told("killed")


def main():
    d, second, mib = sys.argv[1], sys.argv[2], int(sys.argv[3])
    number, killed = 0, False
    while not killed:
        content = data(number, HEAD + mib * MIB + TAIL)
        name = f"file{number}"
        killed = attempt(f"{d}/{name}", number, content)
        note(f"attempt {number}: the MDS {'was killed in time' if killed else 'went on'}")
        number += 1
    drop_caches()
    equal(os.stat(f"{second}/{name}").st_size, len(content), f"size of {name}")
    with open(f"{second}/{name}", "rb") as file:
        same_bytes(file.read(), content, name)


run(main)
