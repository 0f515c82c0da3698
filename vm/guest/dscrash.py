"""Work that goes on while the host kills and restarts data servers: dscrash.py DIR.

Four workers write in turn over a few places of their own files, buffered with fsync, by O_DIRECT, by O_SYNC and with
cp, and a fifth reads a file that was synced before, until the host has killed data servers three times. The host is
told "stepN" when every worker has gone on since the last time, and answers "backN" when the data servers serve again.
At last it stops one (SIGSTOP), and a new file is written without it.
"""

import os
import sys
import threading
import time

from check import (
    HOST_LIMIT_S, await_host, data, direct_write, drop_caches, expect, note, run, same_bytes, tell,
)
from workers import MIB, Worker, copier, make_sources, plain_write, reader, streamer

ROUNDS = 3
# Steps that each worker does before the host is told, so that all are under way.
STEPS_EACH = 3
# It ends a hang, and measures nothing.
AWAY_LIMIT_S = 60


def progress(workers):
    """Waits until each worker has done some more."""
    goals = {worker: worker.done + STEPS_EACH for worker in workers}
    deadline = time.monotonic() + HOST_LIMIT_S
    while any(worker.done < goal for worker, goal in goals.items()):
        for worker in workers:
            expect(worker.failure is None, f"{worker.name}: {worker.failure!r}")
        stuck = [worker.name for worker, goal in goals.items() if worker.done < goal]
        expect(time.monotonic() < deadline, f"no progress of {stuck}")
        time.sleep(0.05)


def while_away(path):
    """A new file does not wait for a data server that is stopped."""
    content = data(5, 9 * MIB)

    def write():
        with open(path, "wb") as file:
            file.write(content)
            os.fsync(file.fileno())

    tell("freeze")
    await_host("frozen")
    began = time.monotonic()
    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    writer.join(AWAY_LIMIT_S)
    waits = writer.is_alive()
    note(f"a new file of 9 MiB took {time.monotonic() - began:.1f} s while a data server was stopped")
    tell("written")
    await_host("thawed")
    # Said only now: a program with a thread that waits for a stopped server cannot end.
    expect(not waits, "a new file waits for a data server that is stopped")
    drop_caches()
    with open(path, "rb") as file:
        same_bytes(file.read(), content, "the file that was made meanwhile")


def main():
    d = sys.argv[1]
    synced = data(1, 8 * MIB)
    with open(f"{d}/synced", "wb") as file:
        file.write(synced)
        os.fsync(file.fileno())
    make_sources()
    copies = copier(d)
    buffered = streamer(f"{d}/buffered", 0, MIB, plain_write)
    direct = streamer(f"{d}/direct", os.O_DIRECT, MIB, direct_write)
    stable = streamer(f"{d}/stable", os.O_SYNC, 10_000, plain_write)
    workers = [
        Worker("buffered", *buffered[:2]),
        Worker("direct", *direct[:2]),
        Worker("stable", *stable[:2]),
        Worker("cp", *copies[:2]),
        Worker("reader", reader(f"{d}/synced", synced)),
    ]
    for worker in workers:
        worker.start()
    for number in range(ROUNDS):
        progress(workers)
        began = time.monotonic()
        tell(f"step{number}")
        await_host(f"back{number}")
        serving = time.monotonic() - began
        progress(workers)
        note(f"round {number}: data servers back after {serving:.1f} s, "
             f"everyone went on after {time.monotonic() - began:.1f} s")
    for worker in workers:
        worker.stopping.set()
    for worker in workers:
        worker.join(HOST_LIMIT_S)
        expect(not worker.is_alive(), f"{worker.name} does not end")
        expect(worker.failure is None, f"{worker.name}: {worker.failure!r}")
    note(", ".join(f"{worker.name} {worker.done} steps" for worker in workers))
    drop_caches()
    for compare in (buffered[2], direct[2], stable[2], copies[2]):
        compare()
    with open(f"{d}/synced", "rb") as file:
        same_bytes(file.read(), synced, "the file that was synced before")
    while_away(f"{d}/new")


run(main)
