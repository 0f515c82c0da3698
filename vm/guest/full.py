"""A store that becomes full, then its disk, and both have room again: full.py DIR DISK_MIB.

In turns with the host, which runs the file copier of the server while the store is full ("filled", "copied"), when
there is room ("roomy", "copied again"), then fills the rest of the disk in two steps ("tight", "brimN"), kills the
MDS, and gives the room back ("room").
"""

import errno
import os
import sys
import time

from check import (
    HOST_LIMIT_S, aligned, await_host, data, direct_write, drop_caches, equal, expect, fails_with, note,
    run, same_bytes, tell,
)

MIB = 1 << 20
FILE = 16 * MIB
# The host's store is smaller than this, or the scenario was started by mistake.
FILL_MAX = 1024 * MIB
# Names made until the MDS must have looked at its disk again, and failed.
NAMES_MAX = 20_000
TARGET = "t" * 1000
# What metadata may take meanwhile.
METADATA = 8 * MIB
# How often the host fills the disk again when the stores have tidied up and so given room back.
BRIMS = 10


BEGAN = time.monotonic()


def elapsed():
    return f"{time.monotonic() - BEGAN:.1f} s"


def room(d):
    found = os.statvfs(d)
    return found.f_bavail * found.f_frsize


def wait_until(what, holds):
    deadline = time.monotonic() + HOST_LIMIT_S
    while not holds():
        expect(time.monotonic() < deadline, f"never: {what}")
        time.sleep(0.2)


def make(path, seed, length):
    """Writes and syncs a file; the file is removed again when that fails."""
    try:
        with open(path, "wb", buffering=0) as file:
            content = data(seed, length)
            equal(file.write(content), length, f"bytes written to {path}")
            os.fsync(file.fileno())
    except OSError:
        if os.path.exists(path):
            os.unlink(path)
        raise


def compare(d, seeds):
    drop_caches()
    for seed in seeds:
        with open(f"{d}/file{seed}", "rb") as file:
            same_bytes(file.read(), data(seed, FILE), f"file{seed}")


def fill(d):
    """Makes files until there is no room; returns their seeds."""
    seeds = []
    while len(seeds) * FILE < FILL_MAX:
        try:
            make(f"{d}/file{len(seeds)}", len(seeds), FILE)
        except OSError as error:
            equal(errno.errorcode[error.errno], "ENOSPC", "the error of a full store")
            return seeds
        seeds.append(len(seeds))
    raise SystemExit("the store never became full")


def fill_in_place(d):
    """One file grows until there is no room, by O_DIRECT; its bytes before that are right."""
    path, step = f"{d}/grows", MIB
    fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_DIRECT, 0o644)
    done = 0
    try:
        while done < FILL_MAX:
            direct_write(fd, data(done, step), done)
            done += step
        raise SystemExit("the file never filled the store")
    except OSError as error:
        equal(errno.errorcode[error.errno], "ENOSPC", "the error of a direct write")
    with aligned(step) as buffer:
        for offset in range(0, done, step):
            equal(os.preadv(fd, [buffer], offset), step, "bytes read")
            same_bytes(buffer[:], data(offset, step), f"{path} at {offset}")
    os.close(fd)
    os.unlink(path)
    return done


def full_store(d, disk):
    empty = room(d)
    found = os.statvfs(d)
    total = found.f_blocks * found.f_frsize
    # Several data servers share the disk; none of it counts twice.
    expect(empty <= total < disk, f"df says {total} bytes, {empty} of them free, of a disk of {disk}")
    held = open(f"{d}/held", "wb", buffering=0)
    seeds = fill(d)
    note(f"{empty // MIB} MiB free at first, {room(d) // MIB} MiB after {len(seeds)} files of {FILE // MIB} MiB")
    expect(len(seeds) > 2, "the store is too small for this scenario")
    wait_until("df shows a full store", lambda: room(d) < empty // 4)
    # Names cost nothing of what data may use.
    os.mkdir(f"{d}/directory")
    os.rename(f"{d}/directory", f"{d}/renamed")
    note(f"full after {elapsed()}")
    tell("filled")
    await_host("copied")
    note(f"copied after {elapsed()}")
    compare(d, seeds)

    half = seeds[: len(seeds) // 2]
    before = room(d)
    for seed in half:
        os.unlink(f"{d}/file{seed}")
    wait_until("removal gives room back", lambda: room(d) >= before + len(half) * FILE * 3 // 4)
    seeds = seeds[len(half) :]
    make(f"{d}/file{half[0]}", half[0], FILE)
    seeds.append(half[0])
    equal(held.write(b"still open"), 10, "bytes written to a file that was open all the time")
    held.close()
    note(f"{fill_in_place(d) // MIB} MiB went into one file by O_DIRECT")
    wait_until("its removal gives room back", lambda: room(d) >= FILE * 2)
    note(f"room after {elapsed()}")
    tell("roomy")
    await_host("copied again")
    note(f"copied again after {elapsed()}")
    # Removal goes on behind: all of it must be done before the host measures the disk.
    left = empty - len(seeds) * FILE - METADATA
    wait_until("everything removed gives its room back", lambda: room(d) >= left)
    return seeds


def names_until_full(d):
    """Makes symbolic links until the MDS has no room; returns those that it acknowledged."""
    made = []
    for number in range(NAMES_MAX):
        try:
            os.symlink(TARGET, f"{d}/name{number}")
        except OSError as error:
            equal(errno.errorcode[error.errno], "ENOSPC", "the error of a full metadata store")
            return made
        made.append(f"name{number}")
    raise SystemExit("the metadata store never became full")


def full_disk(d, seeds):
    os.mkdir(f"{d}/names")
    tell("tight")
    await_host("tightened")
    names = names_until_full(f"{d}/names")
    note(f"{len(names)} names before the metadata store was full")
    fails_with([errno.ENOSPC], "mkdir in a full metadata store", os.mkdir, f"{d}/no")
    # What only removes has a reserve of its own.
    os.unlink(f"{d}/held")
    if names:
        os.unlink(f"{d}/names/{names.pop()}")
    compare(d, seeds[:2])

    brim = 0
    while True:
        tell(f"brim{brim}")
        await_host(f"brimful{brim}")
        if not made_directory(f"{d}/no"):
            break
        os.rmdir(f"{d}/no")
        brim += 1
        expect(brim < BRIMS, "directories can be made on a full disk")
    fails_with([errno.ENOSPC], "a new file on a full disk", make, f"{d}/new", 1, 4096)
    equal(set(os.listdir(f"{d}/names")), set(names), "names on a full disk")
    compare(d, seeds[:2])

    note(f"a full disk after {elapsed()}")
    tell("kill")
    await_host("room")
    note(f"the MDS is back after {elapsed()}")
    wait_until("a directory can be made again", lambda: made_directory(f"{d}/again"))
    drop_caches()
    equal(set(os.listdir(f"{d}/names")), set(names), "names after all that")
    for name in names[:: max(1, len(names) // 50)]:
        equal(os.readlink(f"{d}/names/{name}"), TARGET, name)
    compare(d, seeds)
    expected = {f"file{seed}" for seed in seeds} | {"renamed", "names", "again"}
    equal(set(os.listdir(d)), expected, "names of the directory")
    make(f"{d}/last", 99, FILE)


def made_directory(path):
    try:
        os.mkdir(path)
        return True
    except FileExistsError:
        return True
    except OSError as error:
        equal(errno.errorcode[error.errno], "ENOSPC", "the error until there is room")
        return False


def main():
    d, disk = sys.argv[1], int(sys.argv[2]) * MIB
    full_disk(d, full_store(d, disk))


run(main)
