"""Checks of everything that is not file data: special.py DIR (as root, without root squash)."""

import errno
import os
import socket
import stat
import sys
import time

from check import drop_caches, equal, expect, fails_with, in_child, joined, run

USER, GROUP, EXTRA_GROUP = 12345, 23456, 34567


def special_files(d):
    os.mkfifo(f"{d}/fifo", 0o640)
    os.mknod(f"{d}/char", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    os.mknod(f"{d}/block", 0o600 | stat.S_IFBLK, os.makedev(259, 70_000))
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(d)
        listener.bind("socket")
        os.chdir("/")
    drop_caches()
    for name, kind in [("fifo", stat.S_IFIFO), ("char", stat.S_IFCHR), ("block", stat.S_IFBLK),
                       ("socket", stat.S_IFSOCK)]:
        equal(stat.S_IFMT(os.lstat(f"{d}/{name}").st_mode), kind, f"type of {name}")
    equal(os.lstat(f"{d}/char").st_rdev, os.makedev(1, 3), "numbers of the character device")
    equal(os.lstat(f"{d}/block").st_rdev, os.makedev(259, 70_000), "numbers of the block device")
    with open(f"{d}/char", "wb") as null:
        null.write(b"x")
    types = {e.name: stat.S_IFMT(e.stat(follow_symlinks=False).st_mode) for e in os.scandir(d)}
    equal(types["fifo"], stat.S_IFIFO, "type of the fifo in the listing")
    for name in ["fifo", "char", "block", "socket"]:
        os.unlink(f"{d}/{name}")


def modes(d):
    os.umask(0o027)
    os.close(os.open(f"{d}/file", os.O_CREAT | os.O_WRONLY, 0o666))
    os.mkdir(f"{d}/dir", 0o777)
    os.umask(0o022)
    equal(stat.S_IMODE(os.stat(f"{d}/file").st_mode), 0o640, "mode of a file under umask 027")
    equal(stat.S_IMODE(os.stat(f"{d}/dir").st_mode), 0o750, "mode of a directory under umask 027")
    for mode in [0o000, 0o400, 0o777, 0o4755, 0o2755, 0o1777]:
        os.chmod(f"{d}/dir", mode)
        drop_caches()
        equal(stat.S_IMODE(os.stat(f"{d}/dir").st_mode), mode, f"mode {mode:o}")
    # A new directory takes the group and the bit of a setgid directory.
    os.chown(f"{d}/dir", USER, GROUP)
    os.chmod(f"{d}/dir", 0o2777)
    os.mkdir(f"{d}/dir/below")
    equal(os.stat(f"{d}/dir/below").st_gid, GROUP, "group under a setgid directory")


def owners(d):
    os.chown(f"{d}/file", USER, GROUP)
    drop_caches()
    found = os.stat(f"{d}/file")
    equal((found.st_uid, found.st_gid), (USER, GROUP), "owner and group")
    os.chown(f"{d}/file", -1, EXTRA_GROUP)
    found = os.stat(f"{d}/file")
    equal((found.st_uid, found.st_gid), (USER, EXTRA_GROUP), "owner after chgrp")
    os.chmod(f"{d}/file", 0o040)

    def become(uid, gid, groups):
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)

    def member():
        become(USER + 1, USER + 1, [EXTRA_GROUP])
        os.close(os.open(f"{d}/file", os.O_RDONLY))
        fails_with([errno.EACCES], "write by a member", os.open, f"{d}/file", os.O_WRONLY)
        fails_with([errno.EPERM], "chmod by another", os.chmod, f"{d}/file", 0o777)
        fails_with([errno.EPERM, errno.EACCES], "times by another", os.utime, f"{d}/file", (0, 0))
        fails_with([errno.EACCES], "create in another's directory", os.mkdir, f"{d}/no")

    def stranger():
        become(USER + 1, USER + 1, [])
        fails_with([errno.EACCES], "read by a stranger", os.open, f"{d}/file", os.O_RDONLY)

    def owner():
        become(USER, USER, [])
        fails_with([errno.EACCES], "read by the owner, mode 040", os.open, f"{d}/file", os.O_RDONLY)
        fails_with([errno.EPERM], "chown by the owner", os.chown, f"{d}/file", USER + 1, -1)
        os.chmod(f"{d}/file", 0o600)
        os.close(os.open(f"{d}/file", os.O_RDWR))

    os.chmod(d, 0o755)
    for who in (member, stranger, owner):
        joined(in_child(who), f"what the {who.__name__} may do")

    # The sticky bit: only the owner removes.
    os.mkdir(f"{d}/sticky")
    os.chmod(f"{d}/sticky", 0o1777)
    open(f"{d}/sticky/mine", "w").close()

    def thief():
        become(USER, USER, [])
        fails_with([errno.EPERM, errno.EACCES], "unlink of another's file in a sticky directory",
                   os.unlink, f"{d}/sticky/mine")

    joined(in_child(thief), "the sticky bit")


def links(d):
    with open(f"{d}/one", "w") as file:
        file.write("same")
    for number in range(10):
        os.link(f"{d}/one", f"{d}/link{number}")
    first, last = os.stat(f"{d}/one"), os.stat(f"{d}/link9")
    equal((first.st_ino, first.st_nlink), (last.st_ino, 11), "number and count of a linked file")
    os.unlink(f"{d}/one")
    equal(os.stat(f"{d}/link3").st_nlink, 10, "count after an unlink")
    fails_with([errno.EEXIST], "link onto a name", os.link, f"{d}/link1", f"{d}/link2")
    fails_with([errno.EPERM], "link of a directory", os.link, f"{d}/dir", f"{d}/dir2")
    equal(os.stat(f"{d}/dir").st_nlink, 3, "links of a directory with one directory in it")

    for target in ["link1", "/absolute/and/not/there", "x" * 1000, "../" * 20 + "up", "\u00fcn\u00efc\u00f8d\u00e9"]:
        os.symlink(target, f"{d}/symlink")
        drop_caches()
        equal(os.readlink(f"{d}/symlink"), target, "target of a symbolic link")
        equal(os.lstat(f"{d}/symlink").st_size, len(target.encode()), "size of a symbolic link")
        os.unlink(f"{d}/symlink")
    os.symlink("link1", f"{d}/symlink")
    with open(f"{d}/symlink") as file:
        equal(file.read(), "same", "what a symbolic link leads to")
    os.symlink("loop", f"{d}/loop")
    fails_with([errno.ELOOP], "a link to itself", os.stat, f"{d}/loop")


def times(d):
    path = f"{d}/times"
    open(path, "w").close()
    wanted = [(1_234_567_890_123_456_789, 987_654_321_000_000_001), (0, 1), (2**33 * 10**9, 5)]
    if os.environ["VERS"] == "3":
        # Its clients cut what lies outside of 1970 to 2106, and nanoseconds of the first and the last second.
        wanted = [wanted[0], (0, 1_000_000_001)]
    for given in wanted:
        os.utime(path, ns=given)
        drop_caches()
        found = os.stat(path)
        equal((found.st_atime_ns, found.st_mtime_ns), given, "times that were set")
    before = os.stat(path)
    time.sleep(0.05)
    os.chmod(path, 0o600)
    after = os.stat(path)
    expect(after.st_ctime_ns > before.st_ctime_ns, "chmod did not raise ctime")
    equal(after.st_mtime_ns, before.st_mtime_ns, "mtime after chmod")
    with open(path, "w") as file:
        file.write("x")
    drop_caches()
    written = os.stat(path)
    expect(abs(written.st_mtime - time.time()) < 30, "a write did not set mtime to now")
    expect(written.st_ctime_ns > after.st_ctime_ns, "a write did not raise ctime")
    # The same length again: only the time tells.
    time.sleep(0.05)
    with open(path, "r+") as file:
        file.write("y")
    drop_caches()
    expect(os.stat(path).st_mtime_ns > written.st_mtime_ns, "an overwrite did not raise mtime")
    directory = os.stat(d)
    time.sleep(0.05)
    os.mkdir(f"{d}/newer")
    drop_caches()
    expect(os.stat(d).st_mtime_ns > directory.st_mtime_ns, "a new entry did not raise mtime")


def names(d):
    os.mkdir(f"{d}/names")
    wanted = ["a" * 255, "\u00fcn\u00efc\u00f8d\u00e9-\u6f22\u5b57", " leading and trailing ", "new\nline", "back\\slash", "-rf",
              "*?[]", "...", "UPPER", "upper"]
    for name in wanted:
        open(f"{d}/names/{name}", "x").close()
    drop_caches()
    equal(sorted(os.listdir(f"{d}/names")), sorted(wanted), "names")
    fails_with([errno.ENAMETOOLONG], "a name of 256 bytes", open, f"{d}/names/{'a' * 256}", "x")
    fails_with([errno.EEXIST], "an exclusive create of a name", open, f"{d}/names/UPPER", "x")
    fails_with([errno.ENOTDIR], "below a file", os.stat, f"{d}/names/UPPER/x")
    fails_with([errno.EISDIR], "unlink of a directory", os.unlink, f"{d}/names")
    fails_with([errno.ENOTDIR], "rmdir of a file", os.rmdir, f"{d}/names/UPPER")
    fails_with([errno.ENOTEMPTY, errno.EEXIST], "rmdir of a full directory", os.rmdir, f"{d}/names")


def main():
    for part in (special_files, modes, owners, links, times, names):
        part(sys.argv[1])


run(main)
