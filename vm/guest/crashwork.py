"""Work that goes on while the host kills and restarts the server: crashwork.py DIR.

Before the crash: files written and fsynced, one open with a lock, one being written. The host is
told by the file "step1" in the job directory and answers with "go" when the server is dead.
"""

import fcntl
import os
import sys
import threading
import time

from check import await_host, data, drop_caches, equal, note, run, same_bytes, tell

FILES = 20
STREAM_MIB = 24
MIB = 1 << 20


def stream(path, failures):
    """Writes without pause through the crash, a fsync every few MiB."""
    try:
        with open(path, "wb", buffering=0) as file:
            for number in range(STREAM_MIB):
                file.write(data(number, MIB))
                if number % 4 == 3:
                    os.fsync(file.fileno())
                time.sleep(0.1)
            os.fsync(file.fileno())
    except OSError as error:
        failures.append(error)


def main():
    d = sys.argv[1]
    for number in range(FILES):
        with open(f"{d}/synced{number}", "wb") as file:
            file.write(data(number, 50_000 + number * 7919))
            os.fsync(file.fileno())
    held = open(f"{d}/held", "w+b")
    held.write(b"held content")
    held.flush()
    os.fsync(held.fileno())
    fcntl.lockf(held, fcntl.LOCK_EX)
    os.rename(f"{d}/synced0", f"{d}/renamed")

    failures = []
    writer = threading.Thread(target=stream, args=(f"{d}/stream", failures))
    writer.start()
    time.sleep(0.5)
    tell("step1")
    await_host("go")
    began = time.monotonic()
    os.fsync(held.fileno())
    os.stat(f"{d}/renamed")
    with open(f"{d}/after", "wb") as file:
        file.write(b"made after the crash")
    note(f"served again {time.monotonic() - began:.1f} s after the kill")

    equal(held.seek(0), 0, "seek")
    drop_caches()
    equal(held.read(), b"held content", "the file that was open, after the crash")
    held.write(b" and more")
    held.flush()
    os.fsync(held.fileno())
    fcntl.lockf(held, fcntl.LOCK_UN)
    held.close()
    writer.join()
    equal(failures, [], "errors of the stream")

    drop_caches()
    for number in range(FILES):
        name = "renamed" if number == 0 else f"synced{number}"
        with open(f"{d}/{name}", "rb") as file:
            same_bytes(file.read(), data(number, 50_000 + number * 7919), name)
    with open(f"{d}/stream", "rb") as file:
        for number in range(STREAM_MIB):
            same_bytes(file.read(MIB), data(number, MIB), f"MiB {number} of the stream")
        equal(file.read(), b"", "the end of the stream")
    with open(f"{d}/held", "rb") as file:
        equal(file.read(), b"held content and more", "the held file")
    expected = {f"synced{n}" for n in range(1, FILES)} | {"renamed", "held", "stream", "after"}
    equal(set(os.listdir(d)), expected, "names after the crash")


run(main)
