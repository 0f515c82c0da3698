"""One of two machines of one name: clones.py DIR ROLE SECONDS. Makes files of 100 KB for so long, and reads them back."""

import errno
import os
import shutil
import sys
import time

from check import await_host, data, drop_caches, equal, note, run, same_bytes, tell

FILE = 100_000


def make(folder, seconds):
    """Numbers of the files that were made in this time, and of those that failed. A client that lost its opens may say EIO."""
    made, failed, number, began = [], [], 0, time.monotonic()
    while time.monotonic() - began < seconds:
        try:
            with open(f"{folder}/{number}", "wb") as file:
                file.write(data(number, FILE))
            made.append(number)
        except OSError as error:
            equal(error.errno, errno.EIO, f"the error of file {number}")
            failed.append(number)
        number += 1
    return made, failed


def main():
    folder, role, seconds = f"{sys.argv[1]}-{sys.argv[2]}", sys.argv[2], int(sys.argv[3])
    os.makedirs(folder, exist_ok=True)
    tell("mounted")
    await_host("both")
    made, failed = make(folder, seconds)
    note(f"machine {role} made {len(made)} files in {seconds} s; {len(failed)} failed")
    tell("made")
    await_host("alone")
    drop_caches()
    for number in made:
        with open(f"{folder}/{number}", "rb") as file:
            same_bytes(file.read(), data(number, FILE), f"file {number}")
    shutil.rmtree(folder)
    tell("done")


run(main)
