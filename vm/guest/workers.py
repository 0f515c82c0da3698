"""Workers that write and read over and over while servers fail, and what proves their bytes afterwards.

`streamer` and `copier` return the functions of a Worker, and as the last one that which compares. `reader` compares
what it reads at once.
"""

import os
import subprocess
import threading
import time

from check import aligned, data, equal, expect, same_bytes

MIB = 1 << 20
PLACES = 16
COPIES = 3
COPY_BYTES = 6 * MIB + 789


class Worker(threading.Thread):
    """Does `step` with rising numbers until told to stop; its first error ends it."""

    def __init__(self, name, step, finish=lambda: None):
        super().__init__(name=name, daemon=True)
        self.step, self.finish = step, finish
        self.done, self.failure = 0, None
        # Seconds of the longest step.
        self.longest = 0
        self.stopping = threading.Event()

    def run(self):
        try:
            while not self.stopping.is_set():
                began = time.monotonic()
                self.step(self.done)
                self.longest = max(self.longest, time.monotonic() - began)
                self.done += 1
            self.finish()
        except Exception as failure:  # Told by the main thread.
            self.failure = failure

    def take_longest(self):
        """How long the longest step took since this was asked last, s."""
        longest, self.longest = self.longest, 0
        return longest


def streamer(path, flags, chunk, write, stride=None):
    """A file and the seeds of what was last written at its places, which begin `stride` bytes apart."""
    stride = stride or chunk
    fd = os.open(path, os.O_CREAT | os.O_RDWR | flags, 0o644)
    seeds = {}

    def step(number):
        place = number % PLACES
        seed = hash((path, number)) & 0xFFFFFFFF
        write(fd, data(seed, chunk), place * stride)
        seeds[place] = seed
        if number % 4 == 3:
            os.fsync(fd)

    def finish():
        os.fsync(fd)
        os.close(fd)

    def compare():
        with open(path, "rb") as file:
            for place in range(max(seeds) + 1):
                file.seek(place * stride)
                same_bytes(file.read(chunk), data(seeds[place], chunk), f"{path}, place {place}")
            equal(file.read(), b"", f"the end of {path}")

    return step, finish, compare


def plain_write(fd, content, offset):
    equal(os.pwrite(fd, content, offset), len(content), "bytes of a write")


def make_sources():
    """What `copier` copies."""
    for number in range(2):
        with open(f"/dev/shm/source{number}", "wb") as file:
            file.write(data(100 + number, COPY_BYTES))


def copier(d):
    """Copies by a shell that this starts, so call it before a file of the mount is open.

    A child that is forked later closes such files, which waits for their data, and all threads wait for the child.
    """
    script = "while read -r one other; do cp --remove-destination $one $other; echo $?; done"
    shell = subprocess.Popen(
        ["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    last = {}

    def step(number):
        source = f"/dev/shm/source{number % 2}"
        target = f"{d}/copy{number % COPIES}"
        # cp -f of a new name every time: an OPEN that creates, writes, close.
        print(source, target, file=shell.stdin, flush=True)
        equal(shell.stdout.readline(), "0\n", f"the status of cp {source} {target}")
        last[target] = source

    def finish():
        shell.stdin.close()
        equal(shell.wait(), 0, "the status of the shell")

    def compare():
        for target, source in last.items():
            with open(source, "rb") as wanted, open(target, "rb") as got:
                same_bytes(got.read(), wanted.read(), target)

    return step, finish, compare


def reader(path, content):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)

    def step(number):
        with aligned(len(content)) as buffer:
            got = 0
            while got < len(content):
                count = os.preadv(fd, [memoryview(buffer)[got:]], got)
                expect(count > 0, f"end of {path} after {got} of {len(content)} bytes")
                got += count
            same_bytes(buffer[:], content, f"read {number} of {path}")
        time.sleep(0.2)

    return step
