"""Random file operations checked against a model in memory.

    fsx.py FILE [--ops N] [--seed N] [--size BYTES] [--direct]

Reads, writes, truncates down and up, writes and reads through mmap, fsyncs, drops the cache and
opens again, through two descriptors of one file. The seed gives the run again; a failure prints
the last operations. Offsets prefer the surroundings of powers of two, where stripes and pages end.
"""

import argparse
import mmap
import os
import random
from collections import deque

from check import direct_read, direct_write, drop_caches, equal, note, run, same_bytes, write_all

LENGTH_MAX = 256 << 10
SHOWN_OPERATIONS = 12
PAGE = mmap.PAGESIZE


class Exerciser:
    def __init__(self, options):
        self.path, self.limit, self.direct = options.file, options.size, options.direct
        self.rng = random.Random(options.seed)
        self.model = bytearray()
        self.past = deque(maxlen=SHOWN_OPERATIONS)
        self.counts = {}
        os.close(os.open(self.path, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o644))
        self.fds = []
        self.reopen()

    def reopen(self):
        for fd in self.fds:
            os.close(fd)
        flags = os.O_RDWR
        self.fds = [os.open(self.path, flags), os.open(self.path, flags)]
        if self.direct:
            self.fds.append(os.open(self.path, flags | os.O_DIRECT))

    def offset(self, limit):
        """A place in the file: anywhere, or next to a power of two (mostly page-aligned)."""
        if limit <= 0:
            return 0
        if self.rng.random() < 0.5:
            return self.rng.randrange(limit + 1)
        edge = 1 << self.rng.randrange(9, limit.bit_length() + 1)
        place = edge * self.rng.randrange(1, max(limit // edge, 1) + 1)
        return max(0, min(limit, place + self.rng.choice([-1, 0, 0, 0, 1])))

    def length(self, room):
        biggest = max(1, min(room, LENGTH_MAX))
        if self.rng.random() < 0.5:
            biggest = min(biggest, 2 * PAGE)
        return self.rng.randrange(1, biggest + 1)

    def store(self, offset, content):
        if len(self.model) < offset:
            self.model.extend(bytes(offset - len(self.model)))
        self.model[offset : offset + len(content)] = content

    def log(self, what):
        self.past.append(what)

    # The operations. Each changes the file and the model, or compares them.

    def read(self):
        index = self.rng.randrange(len(self.fds))
        offset = self.offset(len(self.model))
        length = self.length(self.limit)
        self.log(f"read fd{index} {offset}+{length}")
        wanted = bytes(self.model[offset : offset + length])
        if index == 2:
            got = direct_read(self.fds[index], length, offset)
        else:
            got = os.pread(self.fds[index], length, offset)
        same_bytes(got, wanted, f"read of {length} at {offset}")

    def write(self):
        index = self.rng.randrange(len(self.fds))
        offset = self.offset(min(len(self.model) + LENGTH_MAX, self.limit - 1))
        content = self.rng.randbytes(self.length(self.limit - offset))
        self.log(f"write fd{index} {offset}+{len(content)}")
        if index == 2:
            direct_write(self.fds[index], content, offset)
        else:
            write_all(self.fds[index], content, offset)
        self.store(offset, content)

    def truncate(self):
        size = self.offset(self.limit)
        self.log(f"truncate {len(self.model)} -> {size}")
        os.ftruncate(self.fds[self.rng.randrange(2)], size)
        if size < len(self.model):
            del self.model[size:]
        else:
            self.model.extend(bytes(size - len(self.model)))

    def map_write(self):
        if not self.model:
            return
        offset = self.rng.randrange(len(self.model))
        content = self.rng.randbytes(self.length(len(self.model) - offset))
        self.log(f"mmap write {offset}+{len(content)}")
        with mmap.mmap(self.fds[self.rng.randrange(2)], len(self.model)) as view:
            view[offset : offset + len(content)] = content
            if self.rng.random() < 0.3:
                view.flush()
        self.store(offset, content)

    def map_read(self):
        if not self.model:
            return
        offset = self.rng.randrange(len(self.model))
        length = self.length(len(self.model) - offset)
        self.log(f"mmap read {offset}+{length}")
        fd = self.fds[self.rng.randrange(2)]
        with mmap.mmap(fd, len(self.model), prot=mmap.PROT_READ) as view:
            got = view[offset : offset + length]
        same_bytes(got, bytes(self.model[offset : offset + length]), f"mmap at {offset}")

    def fsync(self):
        self.log("fsync")
        os.fsync(self.fds[0])

    def whole(self):
        """Everything from the server, through fresh descriptors."""
        self.log("reopen, drop caches, compare all")
        self.reopen()
        drop_caches()
        equal(os.fstat(self.fds[0]).st_size, len(self.model), "size")
        with open(self.path, "rb") as file:
            same_bytes(file.read(), bytes(self.model), "the whole file")

    def step(self):
        kinds = [self.read, self.write, self.truncate, self.map_write, self.map_read, self.fsync]
        kind = self.rng.choices(kinds, [30, 35, 8, 12, 10, 5])[0]
        kind()
        self.counts[kind.__name__] = self.counts.get(kind.__name__, 0) + 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--ops", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=int, default=4 << 20)
    parser.add_argument("--direct", action="store_true")
    options = parser.parse_args()
    exerciser = Exerciser(options)
    try:
        for number in range(1, options.ops + 1):
            exerciser.step()
            if number % max(options.ops // 8, 1) == 0:
                exerciser.whole()
        exerciser.whole()
    except Exception:
        note(f"seed {options.seed}; the last operations:")
        for line in exerciser.past:
            note(f"  {line}")
        raise
    note(f"seed {options.seed}, {options.ops} operations: {exerciser.counts}")


run(main)
