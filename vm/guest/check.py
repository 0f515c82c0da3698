"""Helpers of the scenario programs: expectations, seeded data, the client's cache, direct I/O.

A program calls run(main): a failed expectation or an error of the system ends it with one line
that says what was expected, and a status other than 0.
"""

import ctypes
import mmap
import os
import random
import sys
import time
import traceback


JOB = "/run/job"
# How long the guest waits for the host: it ends a hang, and measures nothing.
HOST_LIMIT_S = 500


class Failed(Exception):
    """An expectation that did not hold."""


def expect(condition, why):
    if not condition:
        raise Failed(why)


def equal(got, wanted, what):
    expect(got == wanted, f"{what}: expected {wanted!r}, got {got!r}")


def same_bytes(got, wanted, what):
    """As equal, but says where long byte strings begin to differ."""
    if got == wanted:
        return
    expect(len(got) == len(wanted), f"{what}: expected {len(wanted)} bytes, got {len(got)}")
    at = next(i for i in range(len(wanted)) if got[i] != wanted[i])
    raise Failed(f"{what}: byte {at} is {got[at]:#04x}, expected {wanted[at]:#04x}")


def fails_with(errors, what, call, *arguments, **keywords):
    """Expects the call to fail with one of the errno values."""
    try:
        call(*arguments, **keywords)
    except OSError as error:
        names = [os.strerror(e) for e in errors]
        expect(error.errno in errors, f"{what}: expected {names}, got {error.strerror}")
        return
    raise Failed(f"{what}: expected a failure, but it succeeded")


def data(seed, length):
    """Bytes that cannot be compressed and that the seed gives again."""
    return random.Random(seed).randbytes(length)


def drop_caches():
    """Makes the next read ask the server (dirty pages stay)."""
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as knob:
        knob.write("3")


def note(text):
    print(text, flush=True)


def tell(name):
    """Tells the host that the guest has come this far."""
    open(f"{JOB}/{name}", "w").close()


def told(name):
    """Whether the host has said so."""
    return os.path.exists(f"{JOB}/{name}")


def await_host(*names):
    """Waits until the host says one of the names, and returns it."""
    deadline = time.monotonic() + HOST_LIMIT_S
    while True:
        for name in names:
            if told(name):
                return name
        expect(time.monotonic() < deadline, f"the host never said {names}")
        time.sleep(0.05)


def aligned(length):
    """A page-aligned buffer for O_DIRECT."""
    return mmap.mmap(-1, max(length, 1))


def direct_read(fd, length, offset):
    with aligned(length) as buffer:
        count = os.preadv(fd, [memoryview(buffer)[:length]], offset)
        return buffer[:count]


def direct_write(fd, content, offset):
    with aligned(len(content)) as buffer:
        buffer[: len(content)] = content
        done = os.pwritev(fd, [memoryview(buffer)[: len(content)]], offset)
        equal(done, len(content), "bytes of a direct write")


def write_all(fd, content, offset):
    while content:
        done = os.pwrite(fd, content, offset)
        content, offset = content[done:], offset + done


def in_child(function):
    """Runs the function in a child process; returns its pid. The status is 0 if it returned."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        function()
        status = 0
    except Exception:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def joined(pid, what):
    """Waits for a child and expects that it ended well."""
    _, status = os.waitpid(pid, 0)
    equal(os.waitstatus_to_exitcode(status), 0, what)


def run(main):
    try:
        main()
    except Failed as failure:
        print(f"line {sys.exc_info()[2].tb_next.tb_lineno}: {failure}", flush=True)
        sys.exit(1)
    except OSError as error:
        traceback.print_exc()
        print(f"unexpected error: {error}", flush=True)
        sys.exit(1)


libc = ctypes.CDLL(None, use_errno=True)


def fallocate(fd, mode, offset, length):
    """As fallocate(2)."""
    call = libc.fallocate64
    call.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    if call(fd, mode, offset, length) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
