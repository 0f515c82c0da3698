"""Work that goes on while data servers of a cluster with two copies fail: failover.py DIR ROUNDS.

In each round the host lets four data servers fail, each in another way (BLOWS); the last one stays away until we say
so. We say "stepN" when all workers are under way. The host answers "downN" when the server has failed, and "backN"
when all copies are level again. We note how long each worker took to do a turn over all places. Only what takes LIMIT_S
fails.

While the last one is away, files are opened, written and read, one kind after the other (open_later). The host looks
which servers carried the bytes of each kind.
"""

import os
import sys
import time

from check import (
    aligned, await_host, data, direct_write, drop_caches, equal, expect, note, run, same_bytes, tell,
)
from workers import MIB, Worker, copier, make_sources, plain_write, reader, streamer

BLOWS = ["killed", "terminated", "stopped", "gone"]
# A stripe on each data server.
PLACES = int(os.environ["DS_COUNT"])
PROBE_BYTES = 4096
LATER_MIB = int(os.environ["FAILOVER_MIB"])
# It ends a hang, and measures nothing.
LIMIT_S = 60


def probe(path, place):
    """Small writes to one place, by a file that stays open."""
    fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_DIRECT, 0o644)
    last = []

    def step(number):
        content = data(place << 32 | number, PROBE_BYTES)
        direct_write(fd, content, place * MIB)
        last[:] = [content]
        time.sleep(0.02)

    def compare():
        with open(path, "rb") as file:
            file.seek(place * MIB)
            same_bytes(file.read(PROBE_BYTES), last[0], f"{path}, place {place}")

    return step, lambda: os.close(fd), compare


class Work:
    """The workers of one round, and how many steps of each make a turn over all places."""

    def __init__(self, d):
        os.mkdir(d)
        copies = copier(d)
        self.d = d
        synced = data(1, LATER_MIB * MIB)
        # Files that no worker writes, and what is in them.
        self.files = {f"{d}/{name}": synced for name in ("opened", "closed")}
        for path, content in self.files.items():
            write_file(path, content)
        buffered = streamer(f"{d}/buffered", 0, MIB, plain_write)
        direct = streamer(f"{d}/direct", os.O_DIRECT, MIB, direct_write)
        stable = streamer(f"{d}/stable", os.O_SYNC, 10_000, plain_write, MIB)
        probes = [probe(f"{d}/probe", place) for place in range(PLACES)]
        # A turn of what is buffered ends with the fsync of all places.
        self.turns = {
            Worker("buffered", *buffered[:2]): 2 * PLACES,
            Worker("direct", *direct[:2]): PLACES,
            Worker("stable", *stable[:2]): PLACES,
            Worker("cp", *copies[:2]): 1,
            Worker("reader", reader(f"{d}/opened", synced)): 1,
        }
        for place, (step, finish, _) in enumerate(probes):
            self.turns[Worker(f"place {place}", step, finish)] = 1
        self.compares = [buffered[2], direct[2], stable[2], copies[2]]
        self.compares += [compare for _, _, compare in probes]
        for worker in self.turns:
            worker.start()

    def go_on(self, what, number):
        """Waits until each worker has done a turn that began after now; returns how long each took, in order."""
        # The step that is under way does not count.
        goals = {worker: worker.done + 1 + turn for worker, turn in self.turns.items()}
        began, took = time.monotonic(), {}
        while len(took) < len(goals):
            for worker, goal in goals.items():
                if worker.failure is not None:
                    raise_at(number, f"{worker.name}, {what}: {worker.failure!r}")
                if worker.done >= goal and worker.name not in took:
                    took[worker.name] = time.monotonic() - began
            if time.monotonic() - began > LIMIT_S:
                stuck = [worker.name for worker in goals if worker.name not in took]
                raise_at(number, f"no progress of {stuck} in {LIMIT_S} s, {what}")
            time.sleep(0.02)
        return took

    def end(self, number):
        for worker in self.turns:
            worker.stopping.set()
        for worker in self.turns:
            worker.join(LIMIT_S)
            if worker.is_alive() or worker.failure is not None:
                raise_at(number, f"{worker.name} does not end: {worker.failure!r}")

    def compare(self):
        drop_caches()
        for compare in self.compares:
            compare()
        for path, content in self.files.items():
            compare_file(path, content)


def raise_at(number, why):
    """Fails once the host has brought all servers back: a program with a thread that waits for one cannot end."""
    note(why)
    tell(f"stuck{number}")
    await_host(f"back{number}")
    expect(False, why)


def write_file(path, content):
    with open(path, "wb") as file:
        file.write(content)
        os.fsync(file.fileno())


def compare_file(path, content):
    with open(path, "rb") as file:
        same_bytes(file.read(), content, path)


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


def blow(work, number):
    """One data server fails. The last one of a round comes back after the workers have ended."""
    what = BLOWS[number % len(BLOWS)]
    work.go_on(f"before one is {what}", number)
    tell(f"step{number}")
    await_host(f"down{number}")
    took = work.go_on(f"after one was {what}", number)
    times = ", ".join(f"{name} {seconds:.1f}" for name, seconds in took.items())
    note(f"step {number}: a data server was {what}; seconds to a turn: {times}")
    tell(f"went{number}")
    if what == "gone":
        work.end(number)
        work.compare()
        open_later(work, number)
    await_host(f"back{number}")


def main():
    d, rounds = sys.argv[1], int(sys.argv[2])
    make_sources()
    for number in range(rounds):
        work = Work(f"{d}/{number}")
        for step in range(number * len(BLOWS), (number + 1) * len(BLOWS)):
            blow(work, step)
        work.compare()
        note(", ".join(f"{worker.name} {worker.done} steps" for worker in work.turns))


run(main)
