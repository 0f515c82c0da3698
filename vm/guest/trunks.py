"""Parallel I/O and metadata over several connections: trunks.py DIR NUMBER [kill].

Several processes write files, make and rename others, and read everything back past the cache. The host records while they
work, from its "record" to our "worked", both with NUMBER. With `kill` it kills the MDS in the middle of the names instead. Then
the processes pause between names, so that on new connections the client repeats requests beside others than before.
"""

import os
import sys
import time

from check import await_host, data, drop_caches, equal, in_child, joined, run, same_bytes, tell

WORKERS = 6
# A stripe on each data server.
FILE_BYTES = int(os.environ.get("DS_COUNT", "4")) << 20
NAMES = 100
PAUSE_S = 0.005


def write(d, seed):
    with open(f"{d}/data", "wb") as file:
        file.write(data(seed, FILE_BYTES))
        file.flush()
        os.fsync(file.fileno())


def make_names(d, between=lambda number: None):
    os.mkdir(f"{d}/names")
    for number in range(NAMES):
        between(number)
        with open(f"{d}/names/new", "xb") as file:
            file.write(b"%d" % number)
        os.chmod(f"{d}/names/new", 0o600 + number % 8)
        os.rename(f"{d}/names/new", f"{d}/names/{number}")


def look(d, seed):
    with open(f"{d}/data", "rb") as file:
        same_bytes(file.read(), data(seed, FILE_BYTES), f"{d}/data")
    equal(sorted(map(int, os.listdir(f"{d}/names"))), list(range(NAMES)), f"names in {d}")
    for number in range(NAMES):
        path = f"{d}/names/{number}"
        equal(os.stat(path).st_mode & 0o777, 0o600 + number % 8, f"mode of {path}")
        with open(path, "rb") as file:
            equal(file.read(), b"%d" % number, path)


def all_at_once(function, seeds):
    children = [in_child(lambda seed=seed: function(seed)) for seed in seeds]
    for seed, child in zip(seeds, children):
        joined(child, f"process {seed}")


def main():
    d, number, with_kill = sys.argv[1], int(sys.argv[2]), sys.argv[3:] == ["kill"]
    seeds = range(number * WORKERS, (number + 1) * WORKERS)
    for seed in seeds:
        os.mkdir(f"{d}/{seed}")

    def first(seed):
        def between(number):
            if number == NAMES // 2:
                tell("half")
            time.sleep(seed % WORKERS * PAUSE_S)

        write(f"{d}/{seed}", seed)
        make_names(f"{d}/{seed}", *[between] * with_kill)

    if not with_kill:
        tell(f"mounted{number}")
        await_host(f"record{number}")
    all_at_once(first, seeds)
    if with_kill:
        await_host("killed")
    drop_caches()
    all_at_once(lambda seed: look(f"{d}/{seed}", seed), seeds)
    if not with_kill:
        tell(f"worked{number}")
        await_host(f"counted{number}")


run(main)
