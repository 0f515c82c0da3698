"""Extended attributes by two mounts: xattr.py DIR SECOND-NAME-OF-DIR (as root, without root squash)."""

import errno
import os
import sys

from check import drop_caches, equal, fails_with, in_child, joined, run

# XATTR_SIZE_MAX of Linux.
VALUE_BYTES_MAX = 1 << 16


def names(path):
    # The kernel lists its views of the access control list, too.
    return sorted(name for name in os.listxattr(path) if name.startswith("user."))


def sets_and_removes(d, d2):
    for name in ["file", "dir"]:
        path, other = f"{d}/{name}", f"{d2}/{name}"
        if name == "dir":
            os.mkdir(path)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
        fails_with([errno.ENODATA], "an attribute that is not there", os.getxattr, path, "user.x")
        os.setxattr(path, "user.x", b"one", os.XATTR_CREATE)
        fails_with([errno.EEXIST], "XATTR_CREATE of one that is there",
                   os.setxattr, path, "user.x", b"two", os.XATTR_CREATE)
        fails_with([errno.ENODATA], "XATTR_REPLACE of one that is not there",
                   os.setxattr, path, "user.y", b"two", os.XATTR_REPLACE)
        equal(os.getxattr(other, "user.x"), b"one", f"value of {name} by the other mount")
        os.setxattr(other, "user.x", b"two", os.XATTR_REPLACE)
        drop_caches()
        equal(os.getxattr(path, "user.x"), b"two", f"value of {name} that the other mount set")
        os.setxattr(path, "user.empty", b"")
        equal(os.getxattr(path, "user.empty"), b"", "an empty value")
        equal(names(other), ["user.empty", "user.x"], f"names of {name}")
        os.removexattr(other, "user.x")
        drop_caches()
        fails_with([errno.ENODATA], "an attribute that is not there", os.getxattr, path, "user.x")
        equal(names(path), ["user.empty"], f"names of {name} at the end")


def sizes(d, d2):
    path = f"{d}/sizes"
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
    for size in [1, 4095, 4096, 4097, VALUE_BYTES_MAX - 1, VALUE_BYTES_MAX]:
        value = os.urandom(size)
        os.setxattr(path, "user.big", value)
        equal(os.getxattr(f"{d2}/sizes", "user.big"), value, f"a value of {size} bytes")
    wanted = sorted("user." + f"{n:03}" * 80 for n in range(200))
    for name in wanted:
        os.setxattr(path, name, b"v")
    drop_caches()
    equal(names(path), sorted([*wanted, "user.big"]), "200 long names")


def follow_the_file(d, d2):
    path = f"{d}/moved"
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
    os.setxattr(path, "user.tag", b"mine")
    os.rename(path, f"{d}/dir/moved")
    os.link(f"{d}/dir/moved", f"{d}/linked")
    equal(os.getxattr(f"{d2}/linked", "user.tag"), b"mine", "the value by another name")
    os.unlink(f"{d}/linked")
    os.unlink(f"{d}/dir/moved")
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
    equal(names(path), [], "a new file of the old name has none")


def permissions(d, d2):
    path = f"{d}/private"
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    os.setxattr(path, "user.secret", b"s")

    def stranger():
        os.setgid(54321)
        os.setuid(54321)
        fails_with([errno.EACCES], "a stranger's getxattr", os.getxattr, path, "user.secret")
        fails_with([errno.EACCES], "a stranger's setxattr",
                   os.setxattr, path, "user.secret", b"t")

    joined(in_child(stranger), "the stranger")
    equal(os.getxattr(f"{d2}/private", "user.secret"), b"s", "the value at the end")


def layout_policies(d, d2):
    policy = "user.ropewalk.layout"
    os.mkdir(f"{d}/striped")
    os.setxattr(f"{d}/striped", policy, b"stripe_unit=64KiB stripe_count=1 inline_max=8KiB")
    os.mkdir(f"{d}/striped/below")
    with open(f"{d}/striped/below/f", "wb") as f:
        f.write(bytes(300_000))
    with open(f"{d}/striped/below/small", "wb") as f:
        f.write(b"small")
    stripes = b"stripe_unit=65536 stripe_count=1"
    for path, value in [
        ("striped", stripes + b" inline_max=8192"),
        ("striped/below", stripes + b" inline_max=8192"),
        ("striped/below/f", stripes),
        ("striped/below/small", b"inline=5"),
    ]:
        equal(os.getxattr(f"{d2}/{path}", policy), value, path)
    equal(names(f"{d}/striped/below/f"), [], "names on a file: a copy must not try to set them")
    fails_with([errno.EINVAL], "more data servers than there are",
               os.setxattr, f"{d}/striped", policy, b"stripe_count=200")
    os.removexattr(f"{d}/striped", policy)
    equal(names(f"{d2}/striped"), [], "names without the policy")


def none(d):
    """NFSv4.1 has none (RFC 8276 §8)."""
    fails_with([errno.EOPNOTSUPP], "setxattr over NFSv4.1", os.setxattr, d, "user.x", b"1")


def main():
    if sys.argv[1] == "--none":
        return none(sys.argv[2])
    for part in (sets_and_removes, sizes, follow_the_file, permissions, layout_policies):
        part(*sys.argv[1:])


run(main)
