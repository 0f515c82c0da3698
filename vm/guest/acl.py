"""NFSv4 access control lists by a kernel mount: acl.py DIR SECOND-NAME-OF-DIR (as root, without root squash).

The kernel shows the list of a file as the attribute system.nfs4_acl, which nfs4_setfacl writes: the XDR of nfsace4<>.
"""

import errno
import os
import stat
import struct
import sys

from check import drop_caches, equal, expect, fails_with, in_child, joined, run

ACL = "system.nfs4_acl"
ALLOW, DENY = 0, 1
FILE_INHERIT, DIRECTORY_INHERIT, INHERIT_ONLY, GROUP = 1, 2, 8, 0x40
READ, WRITE, APPEND, EXECUTE, DELETE_CHILD = 1, 2, 4, 0x20, 0x40
USER, MEMBER_OF = 54321, 54322


def encode(aces):
    out = struct.pack(">I", len(aces))
    for kind, flag, mask, who in aces:
        who = who.encode()
        out += struct.pack(">IIII", kind, flag, mask, len(who)) + who + bytes(-len(who) % 4)
    return out


def decode(blob):
    (count,), at, aces = struct.unpack_from(">I", blob), 4, []
    for _ in range(count):
        kind, flag, mask, length = struct.unpack_from(">IIII", blob, at)
        at += 16
        aces.append((kind, flag, mask, blob[at:at + length].decode()))
        at += (length + 3) // 4 * 4
    return aces


def put(path, aces):
    os.setxattr(path, ACL, encode(aces))


def got(path):
    return decode(os.getxattr(path, ACL))


def as_user(what, function):
    def child():
        os.setgroups([])
        os.setgid(MEMBER_OF)
        os.setuid(USER)
        function()

    joined(in_child(child), what)


def make(path, mode=0o600):
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
    os.write(fd, b"content")
    os.close(fd)


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def enforced(d, d2):
    make(f"{d}/f")
    os.chmod(d, 0o755)

    def stranger():
        fails_with([errno.EACCES], "reading without an entry", open, f"{d}/f", "rb")

    def reader():
        with open(f"{d}/f", "rb") as f:
            equal(f.read(), b"content", "content by the reader")
        fails_with([errno.EACCES], "writing with an entry for reading", open, f"{d}/f", "ab")

    as_user("a stranger", stranger)
    aces = [(DENY, 0, WRITE | APPEND, str(USER)), (ALLOW, GROUP, READ, str(MEMBER_OF)),
            (ALLOW, 0, READ | WRITE | APPEND, "OWNER@")]
    put(f"{d}/f", aces)
    equal(got(f"{d2}/f"), aces, "the list by the other mount")
    equal(mode_of(f"{d2}/f"), 0o600, "the mode that follows from the list")
    drop_caches()
    as_user("a reader", reader)
    os.chmod(f"{d2}/f", 0o600)
    drop_caches()
    as_user("a stranger after chmod", stranger)
    # NFS4ERR_ATTRNOTSUPP has no number of its own in Linux.
    fails_with([errno.EINVAL, errno.EOPNOTSUPP, errno.EIO], "an audit entry",
               put, f"{d}/f", [(2, 0, READ, "OWNER@")])


def inherited(d, d2):
    os.mkdir(f"{d}/dir", 0o700)
    rwx = READ | WRITE | APPEND | EXECUTE
    aces = [(ALLOW, FILE_INHERIT | DIRECTORY_INHERIT, rwx | DELETE_CHILD, str(USER)),
            (ALLOW, 0, rwx | DELETE_CHILD, "OWNER@")]
    put(f"{d}/dir", aces)
    os.umask(0o027)
    make(f"{d}/dir/f", 0o666)
    # What the group bits lack is taken from whoever is named, too, and a later chmod does not give it back.
    os.umask(0o007)
    os.mkdir(f"{d}/dir/sub", 0o777)
    os.umask(0o022)
    equal(mode_of(f"{d2}/dir/f"), 0o640, "a mode that nothing inherited speaks of")
    expect(any(a[3] == str(USER) for a in got(f"{d2}/dir/sub")), "the directory hands its list on")

    def guest():
        equal(open(f"{d}/dir/f", "rb").read(), b"content", "content by the guest")
        make(f"{d}/dir/sub/mine")
        os.rename(f"{d}/dir/sub/mine", f"{d}/dir/mine")
        os.unlink(f"{d}/dir/mine")

    drop_caches()
    as_user("the guest", guest)


def without_a_list(d, d2):
    make(f"{d}/plain", 0o640)
    whos = [a[3] for a in got(f"{d}/plain")]
    expect(set(whos) == {"OWNER@", "GROUP@", "EVERYONE@"}, f"the list of a mode: {whos}")
    put(f"{d}/plain", got(f"{d}/plain"))
    equal(mode_of(f"{d2}/plain"), 0o640, "the mode after its own list")


def main():
    for part in (enforced, inherited, without_a_list):
        part(*sys.argv[1:])


run(main)
