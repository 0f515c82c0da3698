"""Workers of all kinds on a cluster with two copies, whose servers the host changes meanwhile: the class Work.

The host's part of a scenario that uses it answers "stuckN" with "backN" (raise_at).
"""

import os
import time

from check import await_host, data, direct_write, drop_caches, expect, note, same_bytes, tell
from workers import MIB, Worker, copier, plain_write, reader, streamer

# A stripe on each data server.
PLACES = int(os.environ["DS_COUNT"])
PROBE_BYTES = 4096
LATER_MIB = int(os.environ["FAILOVER_MIB"])
# It ends a hang, and measures nothing. The kernel itself waits for minutes for a machine that has gone without a word.
LIMIT_S = int(os.environ.get("LIMIT_S", "60"))


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
    """The workers of one round, and how many steps of each make a turn over all places.

    `shared` is a file of another kernel and its content, which is read too.
    """

    def __init__(self, d, shared=None):
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
        if shared:
            self.turns[Worker("shared", reader(*shared))] = 1
        for place, (step, finish, _) in enumerate(probes):
            self.turns[Worker(f"place {place}", step, finish)] = 1
        self.compares = [buffered[2], direct[2], stable[2], copies[2]]
        self.compares += [compare for _, _, compare in probes]
        for worker in self.turns:
            worker.start()

    def check(self, what, number):
        """Fails when a worker has failed."""
        for worker in self.turns:
            if worker.failure is not None:
                raise_at(number, f"{worker.name}, {what}: {worker.failure!r}")

    def go_on(self, what, number):
        """Waits until each worker has done a turn that began after now; returns how long each took, in order."""
        # The step that is under way does not count.
        goals = {worker: worker.done + 1 + turn for worker, turn in self.turns.items()}
        began, took = time.monotonic(), {}
        while len(took) < len(goals):
            self.check(what, number)
            for worker, goal in goals.items():
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

    def pauses(self):
        """The longest step of each worker since this was asked last, s, the longest one first."""
        longest = [(worker.take_longest(), worker.name) for worker in self.turns]
        return sorted(longest, reverse=True)

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
