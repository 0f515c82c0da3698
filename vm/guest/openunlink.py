"""Checks of names that go while a file is open, on two mounts: openunlink.py DIR DIR2."""

import errno
import os
import sys

from check import (data, direct_read, drop_caches, equal, expect, fails_with, in_child,
                   run, same_bytes)


def make(path, content):
    with open(path, "wb") as file:
        file.write(content)


def content_of(path):
    with open(path, "rb") as file:
        return file.read()


def names(path):
    return sorted(os.listdir(path))


def unlinked_here(a):
    """An open file lives on: renamed by the client, or kept by a server that says so in OPEN
    (OPEN4_RESULT_PRESERVE_UNLINKED), for which recent kernels need no such name."""
    os.mkdir(f"{a}/silly")
    content = data(2, 300_000)
    make(f"{a}/silly/file", content)
    fd = os.open(f"{a}/silly/file", os.O_RDWR)
    os.unlink(f"{a}/silly/file")
    kept = [n[:4] for n in names(f"{a}/silly")]
    expect(kept in ([".nfs"], []), f"names after the unlink: {kept}")
    fails_with([errno.ENOENT], "open of the removed name", os.open, f"{a}/silly/file", os.O_RDONLY)
    if kept:
        fails_with([errno.ENOTEMPTY, errno.EBUSY, errno.EEXIST], "rmdir", os.rmdir, f"{a}/silly")
    drop_caches()
    same_bytes(os.pread(fd, 400_000, 0), content, "read after the unlink")
    os.pwrite(fd, b"later", 300_000)
    os.fsync(fd)
    equal(os.fstat(fd).st_size, 300_005, "size after the unlink")
    os.close(fd)
    equal(names(f"{a}/silly"), [], "names after the last close")
    os.rmdir(f"{a}/silly")


def renamed_here(a):
    make(f"{a}/old", b"old content")
    make(f"{a}/new", b"new content")
    moved = os.open(f"{a}/new", os.O_RDWR)
    replaced = os.open(f"{a}/old", os.O_RDONLY)
    os.rename(f"{a}/new", f"{a}/old")
    drop_caches()
    equal(os.pread(moved, 100, 0), b"new content", "the moved file through its descriptor")
    equal(os.pread(replaced, 100, 0), b"old content", "the replaced file through its descriptor")
    equal(content_of(f"{a}/old"), b"new content", "the name")
    os.pwrite(moved, b"NEW", 0)
    os.fsync(moved)
    os.close(moved)
    os.close(replaced)
    equal(content_of(f"{a}/old"), b"NEW content", "the name after a write")
    os.unlink(f"{a}/old")


def changed_there(a, b):
    """Another mount takes the name away: the file lives on the server while it is open."""
    make(f"{a}/kept", data(3, 100_000))
    make(f"{b}/other", b"other content")
    fd = os.open(f"{a}/kept", os.O_RDWR | os.O_DIRECT)
    os.rename(f"{b}/other", f"{b}/kept")
    equal(content_of(f"{a}/kept"), b"other content", "the name after the other mount's rename")
    same_bytes(direct_read(fd, 200_000, 0), data(3, 100_000), "the replaced file while open")
    os.close(fd)

    make(f"{a}/gone", data(4, 100_000))
    fd = os.open(f"{a}/gone", os.O_RDWR)
    os.unlink(f"{b}/gone")
    fails_with([errno.ENOENT], "stat of the removed name", os.stat, f"{a}/gone")
    drop_caches()
    same_bytes(os.pread(fd, 200_000, 0), data(4, 100_000), "the removed file while open")
    os.pwrite(fd, b"still writable", 50)
    os.fsync(fd)
    equal(os.pread(fd, 14, 50), b"still writable", "a write to the removed file")
    os.close(fd)


def rename_rules(a, b):
    os.mkdir(f"{a}/d1")
    os.mkdir(f"{a}/d2")
    make(f"{a}/d1/inside", b"x")
    make(f"{a}/file", b"file")
    rename = os.rename
    fails_with([errno.ENOTEMPTY, errno.EEXIST], "onto a full directory", rename, f"{a}/d2", f"{a}/d1")
    fails_with([errno.EISDIR], "a file onto a directory", rename, f"{a}/file", f"{a}/d2")
    fails_with([errno.ENOTDIR], "a directory onto a file", rename, f"{a}/d1", f"{a}/file")
    fails_with([errno.EINVAL], "a directory into itself", rename, f"{a}/d1", f"{a}/d1/below")
    fails_with([errno.ENOENT], "what is not there", rename, f"{a}/nothing", f"{a}/d2/x")
    rename(f"{a}/d1", f"{a}/d2")
    equal(names(f"{b}/d2"), ["inside"], "a directory that replaced an empty one")
    os.link(f"{a}/file", f"{a}/link")
    rename(f"{a}/file", f"{a}/link")
    equal(names(f"{b}"), ["d2", "file", "kept", "link"], "two names of one file after a rename")
    rename(f"{a}/file", f"{a}/d2/file")
    equal(content_of(f"{b}/d2/file"), b"file", "a file moved between directories")
    os.mkdir(f"{a}/d3")
    rename(f"{a}/d2", f"{a}/d3/d2")
    equal(os.stat(f"{a}/d3").st_nlink, 3, "links of a directory with one directory in it")
    equal(os.path.realpath(f"{a}/d3/d2/.."), os.path.realpath(f"{a}/d3"), "the moved one's parent")
    os.chdir(f"{a}/d3/d2")
    expect(os.path.exists("../d2/inside"), ".. of a moved directory")
    os.chdir("/")


def atomic_replace(a, b):
    """While one mount replaces a name again and again, the other always finds a whole file."""
    rounds = 60
    make(f"{a}/target", b"%06d" % 0 * 1000)

    def replace():
        for number in range(1, rounds + 1):
            make(f"{b}/next", b"%06d" % number * 1000)
            os.rename(f"{b}/next", f"{b}/target")

    pid = in_child(replace)
    last = 0
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        try:
            found = content_of(f"{a}/target")
        except OSError as error:
            # The server may drop a file that a stateless read still holds the handle of.
            equal(error.errno, errno.ESTALE, "error of the reader")
            continue
        number = int(found[:6])
        same_bytes(found, b"%06d" % number * 1000, "a replaced file")
        expect(number >= last, f"version {number} was seen after {last}")
        last = number
    equal(int(content_of(f"{a}/target")[:6]), rounds, "the last version")


def main():
    a, b = sys.argv[1], sys.argv[2]
    unlinked_here(a)
    renamed_here(a)
    changed_there(a, b)
    rename_rules(a, b)
    atomic_replace(a, b)


run(main)
