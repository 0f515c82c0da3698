"""Work that goes on while data servers of a cluster with two copies fail: failover.py DIR ROUNDS ROLE.

In each round the host lets four data servers fail, each in another way (BLOWS); the last one stays away until we say
so. We say "stepN" when all workers are under way. The host answers "downN" when the server has failed, and "backN"
when all copies are level again. We note how long each worker took to do a turn over all places. Only what takes LIMIT_S
fails (work.py).

While the last one is away, files are opened, written and read, one kind after the other (open_later). The host looks
which servers carried the bytes of each kind.

ROLE silent is another scenario: one data server goes away, and no connection to it ends.

The kernel of ROLE 1 is the second one. The host says "restN" when it has enough of a round.
"""

import hashlib
import os
import sys
import time

from check import aligned, await_host, data, equal, note, run, same_bytes, tell
from work import LATER_MIB, Work, write_file
from workers import MIB, make_sources, plain_write

BLOWS = ["killed", "terminated", "stopped", "gone"]
# A file that both kernels read.
SHARED = "shared"


def read_directly(path, content):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    with aligned(len(content)) as buffer:
        equal(os.preadv(fd, [buffer], 0), len(content), f"bytes of {path}")
        same_bytes(buffer[:], content, path)
    os.close(fd)


def open_later(work, number):
    """Writes and reads files that are opened while a data server is gone.

    They are a new one, one that was closed when the server went, and one that was open then.
    """
    ask(number, "no")
    for kind in ("new", "closed", "opened"):
        began = time.monotonic()
        content = data(f"{kind}{number}", LATER_MIB * MIB)
        path = f"{work.d}/{kind}"
        fd = os.open(path, os.O_CREAT | os.O_WRONLY, 0o644)
        plain_write(fd, content, 0)
        os.fsync(fd)
        os.close(fd)
        read_directly(path, content)
        work.files[path] = content
        note(f"step {number}: {kind} files were written and read in {time.monotonic() - began:.1f} s")
        ask(number, kind)


def ask(number, kind):
    """Has the host count what servers have carried since the last time."""
    tell(f"{kind}{number}")
    await_host(f"counted-{kind}{number}")


def blow(work, number, what):
    """One data server fails. One that goes away comes back after the workers have ended."""
    work.go_on(f"before one is {what}", number)
    tell(f"step{number}")
    await_host(f"down{number}")
    took = work.go_on(f"after one was {what}", number)
    times = ", ".join(f"{name} {seconds:.1f}" for name, seconds in took.items())
    note(f"step {number}: a data server was {what}; seconds to a turn: {times}")
    tell(f"went{number}")
    if what in ("gone", "silent"):
        work.end(number)
        work.compare()
        open_later(work, number)
    await_host(f"back{number}")


def first(d, rounds):
    make_sources()
    write_file(f"{d}/{SHARED}", data(SHARED, LATER_MIB * MIB))
    tell("shared")
    for number in range(rounds):
        work = Work(f"{d}/{number}")
        for step in range(number * len(BLOWS), (number + 1) * len(BLOWS)):
            blow(work, step, BLOWS[step % len(BLOWS)])
        work.compare()
        note_steps(work)
    tell("over")
    await_host("second")
    for number in range(rounds):
        with open(f"{d}/second{number}.sums", encoding="ascii") as file:
            equal(sums(f"{d}/second{number}"), file.read(), "sums of the second kernel's files")


def second(d, rounds):
    """As long as servers fail, in each round: the same work in files of its own. It reads a file of the first, too."""
    make_sources()
    for number in range(rounds):
        work = Work(f"{d}/second{number}", [f"{d}/{SHARED}", data(SHARED, LATER_MIB * MIB)])
        work.go_on("before servers fail", number)
        tell(f"working{number}")
        await_host(f"rest{number}")
        work.check("while servers failed", number)
        work.end(number)
        work.compare()
        with open(f"{d}/second{number}.sums", "w", encoding="ascii") as file:
            file.write(sums(f"{d}/second{number}"))
        note_steps(work)
        longest, name = work.pauses()[0]
        note(f"its longest step: {longest:.1f} s, {name}")
        tell(f"rested{number}")


def silent(d):
    make_sources()
    work = Work(f"{d}/0")
    blow(work, 0, "silent")
    work.compare()
    note_steps(work)


def sums(d):
    """The digests of all files of a directory, by name."""
    lines = []
    for name in sorted(os.listdir(d)):
        with open(f"{d}/{name}", "rb") as file:
            lines.append(f"{hashlib.sha256(file.read()).hexdigest()} {name}\n")
    return "".join(lines)


def note_steps(work):
    note(", ".join(f"{worker.name} {worker.done} steps" for worker in work.turns))


def main():
    d, rounds, role = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if role == "silent":
        silent(d)
    else:
        (second if role == "1" else first)(d, rounds)


run(main)
