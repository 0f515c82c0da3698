"""Work over two networks to the data servers, of which one is cut: multipath.py DIR NUMBER WHEN.

Workers write files and read them back past the cache: new files, and one that stays open. The host counts what the networks
carry from our "begun" to our "counted". With WHEN=under it then cuts one, and says "both" when it is mended and in use again. Each
signal bears NUMBER.
"""

import os
import sys
import threading
import time

from check import HOST_LIMIT_S, await_host, data, expect, note, run, same_bytes, tell

# A stripe on each data server.
FILE_BYTES = int(os.environ.get("DS_COUNT", "4")) << 20
FILES = 3
# Whether each worker keeps its file open.
WORKERS = [False, True, False]
# Steps that each worker does before the host is told that all go on.
STEPS_EACH = 2


def write_and_read(fd, seed):
    content = data(seed, FILE_BYTES)
    expect(os.pwrite(fd, content, 0) == FILE_BYTES, "a write was short")
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    same_bytes(os.pread(fd, FILE_BYTES, 0), content, f"what was written with seed {seed}")


class Worker(threading.Thread):
    """Does steps until told to stop; its first error ends it."""

    def __init__(self, path, number, keeps_open):
        super().__init__(daemon=True)
        self.path, self.seed = path, number << 32
        self.open_file = self.new_file("open") if keeps_open else None
        self.done, self.longest, self.failure = 0, 0, None
        self.stopping = threading.Event()

    def new_file(self, name):
        return os.open(f"{self.path}.{name}", os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o644)

    def step(self):
        fd = self.new_file(self.done % FILES) if self.open_file is None else self.open_file
        write_and_read(fd, self.seed + self.done)
        if self.open_file is None:
            os.close(fd)

    def run(self):
        try:
            while not self.stopping.is_set():
                since = time.monotonic()
                self.step()
                self.longest = max(self.longest, time.monotonic() - since)
                self.done += 1
        except Exception as failure:  # Told by the main thread.
            self.failure = failure


class Work:
    """All workers."""

    def __init__(self, d):
        self.workers = [Worker(f"{d}/{n}", n, keeps_open) for n, keeps_open in enumerate(WORKERS)]
        for worker in self.workers:
            worker.start()

    def goes_on(self, what, number):
        """Waits until each worker has done some more, tells the host, and notes the longest that a step took."""
        goals = {worker: worker.done + STEPS_EACH for worker in self.workers}
        for worker in self.workers:
            worker.longest = 0
        deadline = time.monotonic() + HOST_LIMIT_S
        while any(worker.done < goal for worker, goal in goals.items()):
            self.expect_well()
            stuck = [worker.path for worker, goal in goals.items() if worker.done < goal]
            expect(time.monotonic() < deadline, f"no progress of {stuck} when {what}")
            time.sleep(0.02)
        note(f"{what}{number}: longest step {max(worker.longest for worker in self.workers):.1f} s")
        tell(f"{what}{number}")

    def expect_well(self):
        for worker in self.workers:
            expect(worker.failure is None, f"{worker.path}: {worker.failure!r}")

    def end(self):
        for worker in self.workers:
            worker.stopping.set()
        for worker in self.workers:
            worker.join(HOST_LIMIT_S)
            expect(not worker.is_alive(), f"{worker.path} does not end")
            if worker.open_file is not None:
                os.close(worker.open_file)
        self.expect_well()


def main():
    d, number, when = f"{sys.argv[1]}/{sys.argv[2]}", sys.argv[2], sys.argv[3]
    os.mkdir(d)
    work = Work(d)
    work.goes_on("begun", number)
    await_host(f"counting{number}")
    work.goes_on("counted", number)
    if when == "under":
        await_host(f"cut{number}")
        work.goes_on("went", number)
        await_host(f"both{number}")
    work.end()


run(main)
