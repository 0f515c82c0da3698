"""Files around the limit of inline files: inline.py DIR OTHER-DIR THIRD-DIR.

The directories are one, by two mounts of one client without a common cache and by another client, which only keeps files open
for writing: nobody is delegated them. Each file is changed by one mount or the other at random, and grows and shrinks across the limit. After each change the
other mount reads it, and a model says what is right.
"""

import mmap
import os
import random
import sys

from check import drop_caches, equal, run, same_bytes

LIMIT = 32 << 10
FILES = 24
STEPS = 40
# Just below, at and above the limit, and far from it.
SIZES = (0, 1, 4095, 4096, 20_000, LIMIT - 1, LIMIT, LIMIT + 1, LIMIT + 4096, 3 * LIMIT, 1 << 20)


class File:
    """A file and what it must contain."""

    def __init__(self, name):
        self.name = name
        self.model = bytearray()

    def put(self, at, new):
        end = at + len(new)
        self.model.extend(bytes(max(0, end - len(self.model))))
        self.model[at:end] = new


def write(rng, path, file):
    at = rng.choice((0, len(file.model), rng.randrange(LIMIT + 5000)))
    new = rng.randbytes(rng.choice((1, 100, 3000, 4096, 9000)))
    flags = os.O_WRONLY | rng.choice((0, os.O_SYNC))
    fd = os.open(path, flags)
    equal(os.pwrite(fd, new, at), len(new), "bytes written")
    if rng.random() < 0.3:
        os.fsync(fd)
    os.close(fd)
    file.put(at, new)


def append(rng, path, file):
    new = rng.randbytes(rng.randrange(1, 5000))
    with open(path, "ab") as out:
        out.write(new)
    file.put(len(file.model), new)


def cut(rng, path, file):
    size = rng.choice(SIZES)
    os.truncate(path, size)
    del file.model[size:]
    file.model.extend(bytes(size - len(file.model)))


def mapped(rng, path, file):
    if not file.model:
        return
    with open(path, "r+b") as out, mmap.mmap(out.fileno(), 0) as view:
        at = rng.randrange(len(file.model))
        new = rng.randbytes(min(rng.randrange(1, 5000), len(file.model) - at))
        view[at : at + len(new)] = new
        view.flush()
    file.put(at, new)


def anew(rng, path, file):
    new = rng.randbytes(rng.choice(SIZES[:-1]))
    with open(path, "wb") as out:
        out.write(new)
    file.model[:] = new


def copied(rng, path, file):
    """A copy takes its place, as an editor saves a file."""
    fresh = path + ".new"
    with open(path, "rb") as old, open(fresh, "wb") as out:
        done = 0
        while done < len(file.model):
            done += os.copy_file_range(old.fileno(), out.fileno(), len(file.model) - done)
    os.rename(fresh, path)


def main():
    here, there, third = sys.argv[1:]
    rng = random.Random(28)
    files = [File(f"f{number}") for number in range(FILES)]
    held = []
    for file in files:
        open(f"{here}/{file.name}", "xb").close()
        held.append(open(f"{third}/{file.name}", "r+b"))
    for step in range(STEPS):
        for file in files:
            one, other = (here, there) if rng.random() < 0.5 else (there, here)
            act = rng.choice((write, write, append, cut, mapped, anew))
            act(rng, f"{one}/{file.name}", file)
            what = f"{file.name} after step {step}, {act.__name__}"
            equal(os.stat(f"{other}/{file.name}").st_size, len(file.model), f"size of {what}")
            with open(f"{other}/{file.name}", "rb") as f:
                same_bytes(f.read(), bytes(file.model), what)
    # Names that stay while the file behind them is replaced, and one that is unlinked while it is open and grows.
    for file in files[1::3]:
        copied(rng, f"{here}/{file.name}", file)
    with open(f"{here}/gone", "w+b") as gone:
        gone.write(b"x" * 1000)
        gone.flush()
        os.unlink(f"{here}/gone")
        gone.write(b"y" * LIMIT)
        gone.flush()
        os.fsync(gone.fileno())
        gone.seek(0)
        same_bytes(gone.read(), b"x" * 1000 + b"y" * LIMIT, "an unlinked file that grew")
    drop_caches()
    for file in files:
        with open(f"{there}/{file.name}", "rb") as f:
            same_bytes(f.read(), bytes(file.model), f"{file.name} at the end")
    for f in held:
        f.close()


run(main)
