"""Asynchronous direct writes that lengthen a file: aio.py DIR. What has completed, fstat counts in.

Some writes are under way at once, so attributes are asked for while others complete.
"""

import ctypes
import os
import sys

from check import aligned, data, equal, expect, libc, note, run, same_bytes

BLOCK = 4096
DEPTH = 16
WRITES = 2000

IO_SETUP, IO_DESTROY, IO_GETEVENTS, IO_SUBMIT = 206, 207, 208, 209
PWRITE = 1


class Iocb(ctypes.Structure):
    """struct iocb of io_submit(2)."""

    _fields_ = [
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("rw_flags", ctypes.c_uint32),
        ("opcode", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("fd", ctypes.c_uint32),
        ("buffer", ctypes.c_uint64),
        ("length", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("reserved", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("resfd", ctypes.c_uint32),
    ]


class Event(ctypes.Structure):
    """struct io_event."""

    _fields_ = [(name, ctypes.c_int64) for name in ("data", "object", "result", "more")]


def call(number, *arguments):
    done = libc.syscall(ctypes.c_long(number), *arguments)
    if done < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done


def main():
    path = f"{sys.argv[1]}/extended"
    content = data(7, BLOCK)
    buffer = aligned(BLOCK)
    buffer[:] = content
    address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    context = ctypes.c_ulong(0)
    call(IO_SETUP, ctypes.c_uint(DEPTH), ctypes.byref(context))
    fd = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_RDWR | os.O_DIRECT, 0o644)
    blocks, event, short = {}, Event(), []

    def submit(number):
        block = Iocb(data=number, opcode=PWRITE, fd=fd, buffer=address, length=BLOCK, offset=number * BLOCK)
        blocks[number] = block
        one = ctypes.pointer(block)
        call(IO_SUBMIT, context, ctypes.c_long(1), ctypes.byref(one))

    for number in range(DEPTH):
        submit(number)
    for submitted in range(DEPTH, WRITES + DEPTH):
        call(IO_GETEVENTS, context, ctypes.c_long(1), ctypes.c_long(1), ctypes.byref(event), None)
        equal(event.result, BLOCK, f"bytes of write {event.data}")
        size, end = os.fstat(fd).st_size, (event.data + 1) * BLOCK
        if size < end:
            short.append((end, size))
        del blocks[event.data]
        if submitted < WRITES:
            submit(submitted)
    call(IO_DESTROY, context)
    os.close(fd)
    note(f"{len(short)} of {WRITES} writes were followed by a size that lacks them, first {short[:3]}")
    expect(not short, f"{len(short)} of {WRITES} sizes lack a write that had completed")
    with open(path, "rb") as file:
        same_bytes(file.read(), content * WRITES, "what was written")


run(main)
