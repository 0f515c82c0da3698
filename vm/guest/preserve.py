"""Attributes that are set after the data stay, and set-id bits go with another user's write: preserve.py DIR DIR2.

DIR2 is the same directory, mounted by another client: what it sees is what the server says. As root, without root squash.
"""

import mmap
import os
import shutil
import stat
import subprocess
import sys
import time

from check import data, direct_write, drop_caches, equal, expect, in_child, joined, note, run, write_all

OWNER, MEMBER, GROUP = 12345, 12346, 23456
# 3 February 2001, and a fraction that only nanoseconds keep.
OLD_NS = 981_158_400_123_456_789
LARGE, MIDDLE, SMALL = 2_500_000, 100_000, 3_000
MIB = 1 << 20


def make_tree(root):
    os.makedirs(f"{root}/dir")
    for name, length in [("large", LARGE), ("dir/middle", MIDDLE), ("dir/small", SMALL), ("empty", 0)]:
        with open(f"{root}/{name}", "wb") as file:
            file.write(data(length, length))
    os.chmod(f"{root}/dir/middle", 0o444)
    shutil.copyfile(f"{root}/large", f"{root}/program")
    os.chown(f"{root}/program", OWNER, GROUP)
    os.chmod(f"{root}/program", 0o6755)
    os.symlink("large", f"{root}/link")
    os.mkfifo(f"{root}/fifo", 0o640)
    for path, dirs, files in os.walk(root, topdown=False):
        for name in dirs + files:
            os.utime(f"{path}/{name}", ns=(OLD_NS, OLD_NS), follow_symlinks=False)
    os.utime(root, ns=(OLD_NS, OLD_NS))


def attributes(root):
    """What tools promise to keep, by path."""
    found = {}
    for path, dirs, files in os.walk(root):
        for name in dirs + files:
            full = f"{path}/{name}"
            s = os.lstat(full)
            size = None if stat.S_ISDIR(s.st_mode) else s.st_size
            found[os.path.relpath(full, root)] = (oct(s.st_mode), s.st_uid, s.st_gid, size, s.st_mtime_ns)
    return found


def same_attributes(got, wanted, what):
    equal(sorted(got), sorted(wanted), f"names after {what}")
    for name, attrs in wanted.items():
        equal(got[name], attrs, f"mode, owner, group, size, time of {name} after {what}")


def tools(local, here, there):
    wanted = attributes(local)
    copies = [
        ("cp -a", ["cp", "-a", f"{local}/.", "{}"]),
        ("tar", ["sh", "-c", f"tar --format=posix -C {local} -cf - . | tar -C {{}} -xpf -"]),
    ]
    if shutil.which("rsync"):
        copies.append(("rsync -a", ["rsync", "-a", f"{local}/", "{}/"]))
    for number, (what, command) in enumerate(copies):
        target = f"{here}/copy{number}"
        os.mkdir(target)
        subprocess.run([part.replace("{}", target) for part in command], check=True)
        same_attributes(attributes(target), wanted, what)
        drop_caches()
        same_attributes(attributes(f"{there}/copy{number}"), wanted, f"{what}, seen by another client")
        note(f"{what}: {len(wanted)} names")
        if what == "rsync -a":
            again = subprocess.run(["rsync", "-ai", f"{local}/", f"{target}/"], check=True, capture_output=True)
            equal(again.stdout, b"", "what a second rsync -a finds to do")


def single_files(local, here, there):
    for name in ["large", "dir/small"]:
        source = f"{local}/{name}"
        plain = name.replace("/", "-")
        subprocess.run(["cp", "-p", source, f"{here}/cp-{plain}"], check=True)
        subprocess.run(["install", "-p", "-m", "600", source, f"{here}/install-{plain}"], check=True)
        shutil.copy2(source, "/tmp/moved")
        subprocess.run(["mv", "/tmp/moved", f"{here}/mv-{plain}"], check=True)
        drop_caches()
        for tool in ["cp", "install", "mv"]:
            s = os.stat(f"{there}/{tool}-{plain}")
            equal((s.st_mtime_ns, s.st_size), (OLD_NS, os.stat(source).st_size), f"time and size after {tool} of {name}")


def written_after(here, there):
    """A write after the explicit time moves it, though its report comes with the close."""
    for length in [SMALL, LARGE]:
        fd = os.open(f"{here}/after", os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o644)
        write_all(fd, data(1, length), 0)
        os.utime(fd, ns=(OLD_NS, OLD_NS))
        equal(os.fstat(fd).st_mtime_ns, OLD_NS, "time just set")
        write_all(fd, data(2, length), 0)
        os.close(fd)
        drop_caches()
        found = os.stat(f"{there}/after").st_mtime
        expect(abs(found - time.time()) < 3600, f"time after a later write of {length} bytes: {found}")


def program_of(here, there):
    """An ordinary user writes a program and sets its set-id bits before it is closed."""
    path = f"{here}/own"

    def body():
        os.setgroups([GROUP])
        os.setgid(GROUP)
        os.setuid(OWNER)
        fd = os.open(path, os.O_CREAT | os.O_WRONLY, 0o755)
        write_all(fd, data(3, 3 * MIB), 0)
        os.fchmod(fd, 0o6755)
        os.close(fd)

    os.chmod(here, 0o777)
    joined(in_child(body), "the user who writes a program")
    drop_caches()
    equal(oct(os.stat(f"{there}/own").st_mode & 0o7777), oct(0o6755), "mode of a program that was set before the close")
    equal(os.stat(f"{there}/own").st_size, 3 * MIB, "its size")


def overwrite(path, how):
    os.setgroups([GROUP])
    os.setgid(GROUP)
    os.setuid(MEMBER)
    flags = os.O_RDWR | (os.O_DIRECT if how == "direct" else 0)
    fd = os.open(path, flags)
    if how == "direct":
        direct_write(fd, b"x" * 4096, 0)
    elif how == "mapped":
        with mmap.mmap(fd, 4096) as view:
            view[0] = 120
            view.flush()
    else:
        write_all(fd, b"x", 0)
    os.close(fd)


def set_id(here, there):
    for length in [20_000, MIDDLE, LARGE]:
        for how in ["buffered", "direct", "mapped"]:
            name = f"{how}{length}"
            path = f"{here}/{name}"
            with open(path, "wb") as file:
                file.write(data(4, length))
            os.chown(path, OWNER, GROUP)
            os.chmod(path, 0o4775)
            drop_caches()
            joined(in_child(lambda: overwrite(path, how)), f"{how} write by another user")
            drop_caches()
            mode = os.stat(f"{there}/{name}").st_mode & 0o7777
            equal(oct(mode), oct(0o775), f"mode after a {how} write by another user into {length} bytes")
            with open(f"{there}/{name}", "rb") as file:
                equal(file.read(1), b"x", f"the byte that the {how} write left")


def main():
    here, there = sys.argv[1:]
    os.umask(0o022)
    local = "/tmp/tree"
    make_tree(local)
    tools(local, here, there)
    single_files(local, here, there)
    written_after(here, there)
    program_of(here, there)
    set_id(here, there)


run(main)
