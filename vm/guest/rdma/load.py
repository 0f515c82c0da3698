"""Writes files and reads them back until a file appears: load.py PLACE STOP. A line for each file.

PLACE is a folder, which is read past its cache, or the URL of one, for our own client (the program ROPEWALK).
"""

import hashlib
import os
import subprocess
import sys
import time

BYTES = 3 << 20


def content(number):
    """Bytes that belong to this file and to no other."""
    return hashlib.shake_128(str(number).encode()).digest(BYTES)


class Folder:
    """Files of the kernel's mount."""

    def __init__(self, path):
        self.path = path

    def write(self, name, data):
        with open(os.path.join(self.path, name), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def read(self, name):
        with open(os.path.join(self.path, name), "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return file.read()


class Remote:
    """Files by our own client."""

    def __init__(self, url):
        self.folder, _, self.options = url.partition("?")
        self.program = os.environ["ROPEWALK"]

    def copy(self, *paths):
        subprocess.run([self.program, "cp", *paths], check=True)

    def write(self, name, data):
        with open("/tmp/load.in", "wb") as file:
            file.write(data)
        self.copy("/tmp/load.in", f"{self.folder}{name}?{self.options}")

    def read(self, name):
        self.copy(f"{self.folder}{name}?{self.options}", "/tmp/load.back")
        with open("/tmp/load.back", "rb") as file:
            return file.read()


def main():
    place, stop = sys.argv[1], sys.argv[2]
    files = Remote(place) if place.startswith("nfs:") else Folder(place)
    number = 0
    while not os.path.exists(stop):
        name, wanted, started = f"load-{number % 8}", content(number), time.time()
        files.write(name, wanted)
        written = time.time()
        found = files.read(name)
        if found != wanted:
            print(f"WRONG: file {number}, {len(found)} bytes", flush=True)
            return 1
        print(f"file {number}: written in {written - started:.1f} s, read in {time.time() - written:.1f} s", flush=True)
        number += 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
