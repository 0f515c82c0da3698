"""A directory by NFSv3 and by NFSv4: nfs3.py V3-DIR V4-DIR. What one client does, the other sees."""

import errno
import os
import random
import stat
import sys

from check import data, drop_caches, equal, expect, fails_with, run, same_bytes

LARGE = 9 << 20
NAMES = 700
STEPS = 300


def attributes(path):
    """What both versions tell of a file; NFSv3 counts no more than seconds up to 2106."""
    s = os.lstat(path)
    return (s.st_mode, s.st_nlink, s.st_uid, s.st_gid, s.st_size, s.st_ino, s.st_mtime_ns, s.st_ctime_ns)


def same_attributes(a, b, what):
    equal(attributes(a), attributes(b), f"attributes of {what}")


def put(path, content):
    with open(path, "wb") as file:
        file.write(content)


def get(path):
    with open(path, "rb") as file:
        return file.read()


def contents(v3, v4):
    """Small files and large ones, written by one and read by the other."""
    for number, (writer, reader) in enumerate(((v3, v4), (v4, v3))):
        for length in (0, 1, 4096, 70_000, LARGE):
            name, content = f"file-{number}-{length}", data(f"{number}{length}", length)
            put(f"{writer}/{name}", content)
            drop_caches()
            same_bytes(get(f"{reader}/{name}"), content, f"{name} by the other")
            same_attributes(f"{writer}/{name}", f"{reader}/{name}", name)
            with open(f"{reader}/{name}", "r+b") as file:
                file.seek(length // 2)
                file.write(b"changed")
            changed = content[: length // 2] + b"changed" + content[length // 2 + 7 :]
            drop_caches()
            same_bytes(get(f"{writer}/{name}"), changed, f"{name}, changed by the other")
            os.truncate(f"{reader}/{name}", length // 3)
            same_bytes(get(f"{writer}/{name}"), changed[: length // 3], f"{name}, cut by the other")
            os.unlink(f"{reader}/{name}")
            expect(not os.path.exists(f"{writer}/{name}"), f"{name} is still there")


def names(v3, v4):
    """What changes names, and the errors of it."""
    for made, seen in ((v3, v4), (v4, v3)):
        os.mkdir(f"{made}/d", 0o750)
        os.symlink("to/nowhere", f"{made}/d/link")
        equal(os.readlink(f"{seen}/d/link"), "to/nowhere", "the text of a link")
        put(f"{made}/d/one", b"1")
        os.link(f"{made}/d/one", f"{made}/d/two")
        equal(os.stat(f"{seen}/d/one").st_nlink, 2, "names of a file")
        os.mkfifo(f"{made}/d/fifo", 0o640)
        expect(stat.S_ISFIFO(os.stat(f"{seen}/d/fifo").st_mode), "a pipe is none")
        os.mknod(f"{made}/d/device", stat.S_IFCHR | 0o600, os.makedev(7, 9))
        equal(os.stat(f"{seen}/d/device").st_rdev, os.makedev(7, 9), "numbers of a device")
        os.rename(f"{seen}/d/two", f"{seen}/d/three")
        expect(os.path.exists(f"{made}/d/three") and not os.path.exists(f"{made}/d/two"), "a rename is not seen")
        for path in ("d", "d/link", "d/one", "d/fifo", "d/device"):
            same_attributes(f"{made}/{path}", f"{seen}/{path}", path)
        equal(sorted(os.listdir(f"{made}/d")), sorted(os.listdir(f"{seen}/d")), "names")
        fails_with([errno.ENOTEMPTY, errno.EEXIST], "rmdir", os.rmdir, f"{seen}/d")
        fails_with([errno.EEXIST], "mkdir", os.mkdir, f"{seen}/d")
        fails_with([errno.EEXIST], "O_EXCL", os.open, f"{seen}/d/one", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        fails_with([errno.ENOENT], "open", os.open, f"{seen}/d/none", os.O_RDONLY)
        fails_with([errno.ENAMETOOLONG], "a long name", os.mkdir, f"{seen}/{'n' * 256}")
        os.chmod(f"{seen}/d/one", 0o4711)
        os.chown(f"{seen}/d/one", 1234, 5678)
        os.utime(f"{seen}/d/one", ns=(1_000_000_007, 2_000_000_009))
        same_attributes(f"{made}/d/one", f"{seen}/d/one", "what was set")
        for name in os.listdir(f"{made}/d"):
            os.unlink(f"{made}/d/{name}")
        os.rmdir(f"{seen}/d")


def listing(v3, v4):
    """A directory of several pages."""
    os.mkdir(f"{v4}/many")
    wanted = sorted(f"name-{number:04}-{'x' * (number % 200)}" for number in range(NAMES))
    for name in wanted:
        put(f"{v4}/many/{name}", b"")
    equal(sorted(os.listdir(f"{v3}/many")), wanted, "names by NFSv3")
    with os.scandir(f"{v3}/many") as entries:
        equal(sorted(e.name for e in entries if e.is_file()), wanted, "files by NFSv3")
    for name in wanted:
        os.unlink(f"{v3}/many/{name}")
    equal(os.listdir(f"{v4}/many"), [], "names that are left")
    os.rmdir(f"{v3}/many")


def opened(v3, v4):
    """A file that a client of NFSv4 has open, and perhaps delegated: what it has written is what others read."""
    fd = os.open(f"{v4}/held", os.O_CREAT | os.O_RDWR, 0o644)
    os.write(fd, b"by NFSv4")
    equal(get(f"{v3}/held"), b"by NFSv4", "what the holder has written")
    with open(f"{v3}/held", "r+b") as file:
        file.write(b"of NFSv3")
    drop_caches()
    equal(os.pread(fd, 100, 0), b"of NFSv3", "what was written under its open")
    os.unlink(f"{v3}/held")
    equal(os.fstat(fd).st_size, 8, "the size of a file without a name")
    os.close(fd)
    fd = os.open(f"{v3}/silly", os.O_CREAT | os.O_RDWR, 0o644)
    os.write(fd, b"kept")
    os.unlink(f"{v3}/silly")
    equal(os.pread(fd, 10, 0), b"kept", "a file of NFSv3 that was removed while it is open")
    os.close(fd)


def mixed(v3, v4):
    """One file, changed by either at random; a model says what is right."""
    rng, model = random.Random(3), bytearray()
    for _ in range(STEPS):
        path = f"{rng.choice((v3, v4))}/mixed"
        at, new = rng.randrange(200_000), rng.randbytes(rng.randrange(1, 30_000))
        if rng.random() < 0.2 and model:
            size = rng.randrange(len(model))
            os.truncate(path, size)
            del model[size:]
        else:
            fd = os.open(path, os.O_CREAT | os.O_WRONLY | rng.choice((0, os.O_SYNC)), 0o644)
            os.pwrite(fd, new, at)
            os.close(fd)
            model.extend(bytes(max(0, at + len(new) - len(model))))
            model[at : at + len(new)] = new
        if rng.random() < 0.3:
            drop_caches()
        for reader in (v3, v4):
            same_bytes(get(f"{reader}/mixed"), bytes(model), f"the file by {reader}")


def main():
    v3, v4 = sys.argv[1:]
    names(v3, v4)
    contents(v3, v4)
    listing(v3, v4)
    opened(v3, v4)
    mixed(v3, v4)


run(main)
