"""One of two kernels that change the same files in turn: kernels.py ROLE DIR.

The files are around the limit of inline files. Both kernels know from one seed which of them does what. A lock on a file keeps
the turns. The kernel whose turn it is reads the file first. It must find what both have done so far, though its client may have
older bytes in its cache.
"""

import errno
import fcntl
import mmap
import os
import random
import sys
import time

from check import equal, note, run, same_bytes, tell

LIMIT = 32 << 10
FILES = 6
STEPS = 150
# Just below, at and above the limit, and far from it.
SIZES = (0, 1, 4095, 4096, 20_000, LIMIT - 1, LIMIT, LIMIT + 1, LIMIT + 4096, 3 * LIMIT, 1 << 20)
# How long the other kernel may take for its turn. It ends a hang, and measures nothing.
TURN_S = 120


def write(fd, model, rng):
    at = rng.choice((0, len(model), rng.randrange(LIMIT + 5000)))
    new = rng.randbytes(rng.choice((1, 100, 3000, 4096, 9000)))
    model.extend(bytes(max(0, at + len(new) - len(model))))
    model[at : at + len(new)] = new
    if fd is not None:
        equal(os.pwrite(fd, new, at), len(new), "bytes written")


def cut(fd, model, rng):
    size = rng.choice(SIZES)
    del model[size:]
    model.extend(bytes(size - len(model)))
    if fd is not None:
        os.ftruncate(fd, size)


def mapped(fd, model, rng):
    if not model:
        return
    at = rng.randrange(len(model))
    new = rng.randbytes(min(rng.randrange(1, 5000), len(model) - at))
    model[at : at + len(new)] = new
    if fd is not None:
        with mmap.mmap(fd, 0) as view:
            view[at : at + len(new)] = new
            view.flush()


def anew(fd, model, rng):
    new = rng.randbytes(rng.choice(SIZES[:-1]))
    model[:] = new
    if fd is not None:
        os.ftruncate(fd, 0)
        equal(os.pwrite(fd, new, 0), len(new), "bytes written anew")


def is_locked(fd):
    """Without waiting: a client that waits asks again after ever longer pauses."""
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        equal(error.errno in (errno.EAGAIN, errno.EACCES), True, f"whether {error} is a refused lock")
        return False
    return True


class Turns:
    """A file with the number of the next step; its lock is a turn."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_RDWR)

    def take(self, step):
        until = time.monotonic() + TURN_S
        while True:
            if is_locked(self.fd):
                if int(os.pread(self.fd, 20, 0) or b"0") == step:
                    return
                fcntl.lockf(self.fd, fcntl.LOCK_UN)
            equal(time.monotonic() < until, True, f"whether the other kernel has done its steps before {step}")
            time.sleep(0.01)

    def give(self, step):
        os.pwrite(self.fd, b"%020d" % step, 0)
        fcntl.lockf(self.fd, fcntl.LOCK_UN)


def turn(path, model, act, rng):
    """Under a lock of the file itself, by which the client asks for what others have done."""
    fd = os.open(path, os.O_RDWR)
    fcntl.lockf(fd, fcntl.LOCK_EX)
    equal(os.fstat(fd).st_size, len(model), f"size of {path}")
    same_bytes(os.pread(fd, len(model) + 1, 0), bytes(model), path)
    act(fd, model, rng)
    same_bytes(os.pread(fd, len(model) + 1, 0), bytes(model), f"{path} after {act.__name__}")
    # Closed with the lock: all is written.
    os.close(fd)


def main():
    role, directory = int(sys.argv[1]), sys.argv[2]
    ready = f"{directory}/turns"
    if role == 0:
        os.makedirs(directory, exist_ok=True)
        for number in range(FILES):
            open(f"{directory}/f{number}", "wb").close()
        open(ready, "wb").close()
        tell("made")
    turns, rng = Turns(ready), random.Random(28)
    models = [bytearray() for _ in range(FILES)]
    mine = 0
    for step in range(STEPS):
        number, act = rng.randrange(FILES), rng.choice((write, write, cut, mapped, anew))
        seed, who = rng.randrange(1 << 32), rng.randrange(2)
        steps = random.Random(seed)
        if who == role:
            turns.take(step)
            turn(f"{directory}/f{number}", models[number], act, steps)
            turns.give(step + 1)
            mine += 1
        else:
            act(None, models[number], steps)
    turns.take(STEPS)
    for number, model in enumerate(models):
        with open(f"{directory}/f{number}", "rb") as file:
            same_bytes(file.read(), bytes(model), f"f{number} at the end")
    turns.give(STEPS)
    note(f"kernel {role}: {mine} of {STEPS} steps")


run(main)
