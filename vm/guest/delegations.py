"""Two clients and the files that they are delegated: delegations.py DIR DIR2 MNT MNT2."""

import os
import sys
import time

from check import equal, run
from mountstats import parse

# How long the server grants nothing on a file that it had to recall, and a little.
CONTENDED_S = 32


def count(mount, operation):
    return parse(mount)["operations"].get(operation, 0)


def opens(mount):
    return count(mount, "OPEN") + count(mount, "OPEN_NOATTR")


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def reopened_without_asking(path, mount, what):
    read(path)
    before = opens(mount)
    for _ in range(10):
        read(path)
    equal(opens(mount) - before, 0, f"OPENs of a file that is delegated, {what}")


def writer_and_reader(mine, other, mnt):
    """A write delegation: no OPEN is sent, and the other client's open calls it back."""
    # In NFSv4.0 the first open of an owner is to be confirmed, so it is not delegated.
    write(mine + ".first", b"")
    write(mine, b"a" * 5000)
    reopened_without_asking(mine, mnt, "for writing")
    returned = count(mnt, "DELEGRETURN")
    equal(read(other), b"a" * 5000, "what the holder had written")
    equal(count(mnt, "DELEGRETURN") - returned, 1, "DELEGRETURN after the other's open")
    for round_ in range(5):
        data = bytes([round_]) * 5000
        write(other, data)
        equal(read(mine), data, f"what the other wrote, round {round_}")
        data = bytes([100 + round_]) * 5000
        write(mine, data)
        equal(read(other), data, f"what was written here, round {round_}")


def readers(mine, other, mnt, mnt2):
    """Read delegations on both sides; a write of one calls back the other's."""
    time.sleep(CONTENDED_S)
    reopened_without_asking(mine, mnt, "for reading")
    reopened_without_asking(other, mnt2, "for reading, at the second client")
    returned = count(mnt, "DELEGRETURN")
    with open(other, "r+b") as file:
        file.write(b"new data")
    equal(read(mine)[:8], b"new data", "what the other wrote over delegated data")
    equal(count(mnt, "DELEGRETURN") - returned, 1, "DELEGRETURN after the other's write")


def attributes(mine, other):
    """Size and times of a file that is being written under a delegation."""
    with open(mine, "wb") as file:
        file.write(b"x" * 10)
        file.flush()
        first = os.stat(other)
        file.write(b"x" * 9990)
        file.flush()
        second = os.stat(other)
        equal((first.st_size, second.st_size), (10, 10000), "sizes that the holder told")
        # Only the holder has touched it, but the time goes on.
        equal(second.st_mtime >= first.st_mtime, True, "time does not go back")
    equal(os.stat(other).st_size, 10000, "size behind the close")
    os.chmod(other, 0o600)
    equal(os.stat(mine).st_mode & 0o777, 0o600, "the mode that the other set")
    equal([e.stat().st_size for e in os.scandir(os.path.dirname(other))
           if e.name == os.path.basename(other)], [10000], "the size in a listing")


def names(mine, other):
    """What the other client renames, links and removes."""
    write(mine, b"named")
    os.rename(other, other + ".moved")
    equal(os.path.exists(mine), False, "the old name of a file that is delegated")
    equal(read(mine + ".moved"), b"named", "the file under its new name")
    write(mine, b"second")
    os.link(other, other + ".link")
    equal(os.stat(mine).st_nlink, 2, "links of a file that is delegated")
    kept = open(mine, "rb")
    os.unlink(other)
    os.unlink(other + ".link")
    equal(os.path.exists(mine), False, "a removed file")
    equal(kept.read(), b"second", "an open file without names")
    kept.close()


def main():
    directory, other, mnt, mnt2 = sys.argv[1:]
    for name, part, args in [
        ("shared", writer_and_reader, (mnt,)),
        ("shared", readers, (mnt, mnt2)),
        ("growing", attributes, ()),
        ("named", names, ()),
    ]:
        part(os.path.join(directory, name), os.path.join(other, name), *args)


run(main)
