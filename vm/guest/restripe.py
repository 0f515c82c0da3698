"""Files get other stripes and copies while programs write and read them: restripe.py DIR ORDERS.

DIR is where workers write and read. ORDERS is the same directory on a mount that has extended attributes, by which each
file is ordered another layout, one after the other. Nothing may fail, and every byte must be there in the end.
"""

import os
import sys
import time

from check import data, direct_write, drop_caches, equal, expect, note, run, same_bytes
from workers import MIB, Worker, plain_write, reader, streamer

NAME = "user.ropewalk.layout"
# As they are set, and as they are shown. They differ, so that what is only remembered does not pass.
LAYOUTS = {
    "stripe_unit=64KiB stripe_count=4 copies=1": "stripe_unit=65536 stripe_count=4",
    "stripe_unit=1MiB stripe_count=2 copies=2": "stripe_unit=1048576 stripe_count=2 copies=2",
    "stripe_unit=256KiB stripe_count=1 copies=1": "stripe_unit=262144 stripe_count=1",
    "stripe_unit=1M stripe_count=4 copies=2": "stripe_unit=1048576 stripe_count=4 copies=2",
}
READ_MIB = 8
# It ends a hang, and measures nothing.
LIMIT_S = 240


def words(path):
    return os.getxattr(path, NAME).decode().split()


def order(path, layout, shown):
    """Orders a layout, and waits until the file has it. Returns how long that took."""
    began = time.monotonic()
    os.setxattr(path, NAME, layout.encode())
    # The client shows what was set until the change attribute says that there is more to see.
    while words(path) != shown.split():
        expect(time.monotonic() - began < LIMIT_S, f"{path} has {words(path)}, and not {layout}")
        time.sleep(0.05)
    return time.monotonic() - began


def go_on(workers):
    """Waits until each worker has done steps that began after now."""
    goals = {worker: worker.done + 4 for worker in workers}
    began = time.monotonic()
    for worker, goal in goals.items():
        while worker.done < goal:
            expect(worker.failure is None, f"{worker.name}: {worker.failure!r}")
            expect(time.monotonic() - began < LIMIT_S, f"no progress of {worker.name}")
            time.sleep(0.02)


def main():
    d, orders = sys.argv[1:]
    content = data(1, READ_MIB * MIB)
    with open(f"{d}/read", "wb") as file:
        file.write(content)
    streams = {
        "buffered": streamer(f"{d}/buffered", 0, MIB, plain_write),
        "direct": streamer(f"{d}/direct", os.O_DIRECT, MIB, direct_write),
        "stable": streamer(f"{d}/stable", os.O_SYNC, 10_000, plain_write, MIB),
    }
    workers = [Worker(name, *stream[:2]) for name, stream in streams.items()]
    workers.append(Worker("read", reader(f"{d}/read", content)))
    for worker in workers:
        worker.start()
    go_on(workers)
    for layout, shown in LAYOUTS.items():
        names = [worker.name for worker in workers]
        took = {name: order(f"{orders}/{name}", layout, shown) for name in names}
        go_on(workers)
        note(f"{layout}: " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in took.items()))
    for worker in workers:
        worker.stopping.set()
    for worker in workers:
        worker.join(LIMIT_S)
        equal((worker.is_alive(), worker.failure), (False, None), f"the end of {worker.name}")
    drop_caches()
    for _, _, compare in streams.values():
        compare()
    with open(f"{d}/read", "rb") as file:
        same_bytes(file.read(), content, "read")


run(main)
