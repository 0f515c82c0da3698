"""Users in many groups, and owners by name: identities.py PHASE DIR (as root, without root squash).

The host gives the server a user service in which user 5000, `ann`, is in groups 5001 to 5040. AUTH_SYS carries 16 of them.

    make      makes the files; ann is refused what only her 40th group may have, and root the owner `ann` by name
    managed   with manage_gids: the server's groups count, and no others
    named     with a domain and names mapped here, where ann is 15000
    ids       with a domain and without the mapping
"""

import errno
import os
import sys

from check import drop_caches, equal, fails_with, in_child, joined, run

ANN, STRANGER = 5000, 7000
ANN_HERE = 15000
GROUPS = list(range(5001, 5041))
FIRST, LAST = GROUPS[0], GROUPS[-1]
OTHER = 6000
CONTENT = b"for those of the group"


def as_user(uid, gid, groups, function, *arguments):
    """Runs the function as this user; returns whether it was let."""

    def body():
        os.setgroups(groups)
        os.setgid(gid)
        os.setuid(uid)
        try:
            function(*arguments)
        except PermissionError:
            os._exit(77)

    status = os.waitstatus_to_exitcode(os.waitpid(in_child(body), 0)[1])
    equal(status in (0, 77), True, f"as user {uid} (status {status})")
    return status == 0


def read(path):
    with open(path, "rb") as file:
        equal(file.read(), CONTENT, path)


def append_and_make(d):
    with open(f"{d}/made", "xb") as file:
        file.write(CONTENT)
        os.fsync(file.fileno())
    os.rename(f"{d}/made", f"{d}/renamed")


def make(d):
    for gid in (FIRST, LAST, OTHER):
        with open(f"{d}/{gid}", "xb") as file:
            file.write(CONTENT)
        os.chown(f"{d}/{gid}", 0, gid)
        os.chmod(f"{d}/{gid}", 0o040)
    os.mkdir(f"{d}/folder")
    os.chown(f"{d}/folder", 0, LAST)
    os.chmod(f"{d}/folder", 0o770)
    drop_caches()
    may = lambda gid: as_user(ANN, ANN, GROUPS, read, f"{d}/{gid}")
    equal((may(FIRST), may(LAST)), (True, False), "access by the first group and by the 40th")
    equal(as_user(ANN, ANN, GROUPS, append_and_make, f"{d}/folder"), False, "a file made by the 40th")


def managed(d):
    may = lambda groups, gid: as_user(ANN, ANN, groups, read, f"{d}/{gid}")
    equal(may(GROUPS, LAST), True, "access by the 40th group")
    # What a user claims does not count, neither too little nor too much.
    equal(may([], LAST), True, "access by the 40th group, which the client does not send")
    equal(may([OTHER], OTHER), False, "access by a group that only the client says")
    equal(as_user(STRANGER, STRANGER, [LAST], read, f"{d}/{LAST}"), True, "a user whom the server does not know")
    equal(as_user(ANN, ANN, GROUPS, append_and_make, f"{d}/folder"), True, "a file made by the 40th")
    equal(os.stat(f"{d}/folder/renamed").st_size, len(CONTENT), "size of it")


def owners(path):
    found = os.stat(path)
    return found.st_uid, found.st_gid


def named(d):
    equal(owners(f"{d}/folder/renamed"), (ANN_HERE, ANN_HERE), "ann by her name")
    equal(owners(f"{d}/{LAST}"), (0, LAST + 10000), "a group by its name")
    open(f"{d}/given", "xb").close()
    os.chown(f"{d}/given", ANN_HERE, LAST + 10000)
    os.chmod(f"{d}/given", 0o400)
    drop_caches()
    equal(owners(f"{d}/given"), (ANN_HERE, LAST + 10000), "owners given by name")
    # Who has no name here or there goes by number.
    os.chown(f"{d}/{OTHER}", STRANGER, OTHER)
    drop_caches()
    equal(owners(f"{d}/{OTHER}"), (STRANGER, OTHER), "owners without names")


def ids(d):
    """Access goes by the numbers of AUTH_SYS, so they tell which numbers the server has for the names."""
    equal(as_user(ANN_HERE, ANN_HERE, [], os.listxattr, d), True, "a user of this machine looks")
    equal(as_user(ANN_HERE, ANN_HERE, [], lambda: open(f"{d}/given").close()), False, "15000 is nobody to the server")
    equal(as_user(ANN, ANN, [], lambda: open(f"{d}/given").close()), True, "the owner by the server's number")
    # Linux sends numbers when it maps no names, and the server takes them.
    os.chown(f"{d}/given", STRANGER, LAST)
    equal(as_user(STRANGER, STRANGER, [], lambda: open(f"{d}/given").close()), True, "an owner given by number")


run(lambda: {"make": make, "managed": managed, "named": named, "ids": ids}[sys.argv[1]](sys.argv[2]))
