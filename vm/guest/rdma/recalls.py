"""What the mount holds is called back when another client comes: recalls.py DIR MNT URL.

DIR is an empty folder of the mount at MNT, over RDMA; URL is the same folder for our own client (the program ROPEWALK),
each command of which is another client to the server. The kernel's trace events tell of each callback, and of each call that
came over RDMA to its back channel; the counters of the cluster in the directory STATE tell the same.
"""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager

import mountstats
from check import data, drop_caches, equal, expect, in_child, joined, run, same_bytes, write_all

WRITEBACK = "/proc/sys/vm/dirty_writeback_centisecs"
TRACING = "/sys/kernel/tracing"
RECALL, LAYOUT_RECALL, CALL = "nfs4_cb_recall", "nfs4_cb_layoutrecall_file", "xprtrdma_cb_call"
EVENTS = {RECALL: "nfs4", LAYOUT_RECALL: "nfs4", CALL: "rpcrdma"}
# How long a count is waited for whose cause has been seen. It ends a hang, and measures nothing.
LIMIT_S = 120
MIB = 1 << 20


class Other:
    """Our own client."""

    def __init__(self, url):
        self.folder, _, self.options = url.partition("?")
        self.program = os.environ["ROPEWALK"]

    def url(self, name):
        return f"{self.folder}{name}?{self.options}"

    def read(self, name):
        return subprocess.run([self.program, "cat", self.url(name)], check=True, stdout=subprocess.PIPE).stdout

    def write(self, name, content):
        """Makes the file, or opens the one that is there for writing and cuts it off first."""
        with open("/tmp/recalls.in", "wb") as file:
            file.write(content)
        subprocess.run([self.program, "cp", "--quiet", "/tmp/recalls.in", self.url(name)], check=True)


class Mount:
    """The kernel's client, and what it counts."""

    def __init__(self, path):
        self.path = path

    def operations(self, *names):
        found = mountstats.parse(self.path)["operations"]
        return sum(found.get(name, 0) for name in names)

    def by_layout(self):
        stats = mountstats.parse(self.path)
        return stats["pnfs_reads"] + stats["pnfs_writes"]

    def delegated(self, path, what):
        """A file that is delegated is opened without an OPEN."""
        before = self.operations("OPEN", "OPEN_NOATTR")
        for _ in range(3):
            read(path)
        equal(self.operations("OPEN", "OPEN_NOATTR") - before, 0, f"OPENs of a file that is delegated for {what}")

    def called_back(self, event, operation, work):
        """The work of another client has this callback, and the answer to it is this operation."""
        callbacks, answers = traced(event), self.operations(operation)
        work()
        await_more(lambda: traced(event), callbacks, event)
        await_more(lambda: self.operations(operation), answers, operation)


def await_more(count, before, what):
    deadline = time.monotonic() + LIMIT_S
    while count() <= before:
        expect(time.monotonic() < deadline, f"the other client's work went on without {what}")
        time.sleep(0.2)


def trace():
    if not os.path.exists(f"{TRACING}/events"):
        subprocess.run(["mount", "-t", "tracefs", "trace", TRACING], check=True)
    for event, system in EVENTS.items():
        set_knob(f"{TRACING}/events/{system}/{event}/enable", "1")


def traced(event):
    with open(f"{TRACING}/trace") as lines:
        return sum(f" {event}: " in line for line in lines)


def server():
    """What the server counts, and its calls by connection over RDMA."""
    told = subprocess.run(
        [os.environ["ROPEWALK"], "status", "--dir", f"{os.environ['STATE']}/mds", "--json"],
        check=True, stdout=subprocess.PIPE,
    ).stdout
    mds = next(iter(json.loads(told).values()))
    calls = {(row["peer"], row["local"]): row["calls_out"] for row in mds["rdma_busiest"]}
    return mds["counters"], calls


def read(path):
    with open(path, "rb") as file:
        return file.read()


def for_writing(path, other, mount):
    """A delegation for writing comes back when the other client reads. The file stays open, and so is not delegated again."""
    content = data(1, 300_000)
    fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    write_all(fd, content, 0)
    os.fsync(fd)
    mount.delegated(path, "writing")
    found = []
    mount.called_back(RECALL, "DELEGRETURN", lambda: found.append(other.read("written")))
    same_bytes(found[0], content, "what the holder had written")
    return fd


def for_reading(path, other, mount):
    """A delegation for reading comes back when the other client writes."""
    before, after = data(2, 300_000), data(3, 200_000)
    other.write("read", before)
    same_bytes(read(path), before, "what the other had written")
    mount.delegated(path, "reading")
    mount.called_back(RECALL, "DELEGRETURN", lambda: other.write("read", after))
    same_bytes(read(path), after, "what the other wrote over delegated data")


def layout(fd, other, mount):
    """A layout that is in use comes back when the other client cuts the file off, and writes go on with the next one."""
    before = mount.by_layout()
    write_all(fd, data(4, 4 * MIB), 0)
    os.fsync(fd)
    expect(mount.by_layout() > before, "nothing was written by a layout")
    content, piece = data(5, 3 * MIB // 2), data(6, MIB)
    mount.called_back(LAYOUT_RECALL, "LAYOUTRETURN", lambda: cut_off(fd, other, content))
    before = mount.by_layout()
    write_all(fd, piece, 2 * MIB)
    os.fsync(fd)
    expect(mount.by_layout() > before, "nothing was written by a layout behind the recall")
    return content.ljust(2 * MIB, b"\0") + piece


def cut_off(fd, other, content):
    """The other client writes the file anew, while the mount has sent data that it has not committed: Linux gives a layout that
    it does not use back by its answer alone, without LAYOUTRETURN (NFS4ERR_NOMATCHING_LAYOUT)."""
    recalls = traced(LAYOUT_RECALL)
    with writeback_off():
        write_all(fd, data(7, 2 * MIB), 0)
        # Begins to write what is dirty.
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        writing = in_child(lambda: other.write("written", content))
        await_more(lambda: traced(LAYOUT_RECALL), recalls, LAYOUT_RECALL)
        os.fsync(fd)
    joined(writing, "the other client's copy")


@contextmanager
def writeback_off():
    """Nobody commits by himself what was written."""
    with open(WRITEBACK) as knob:
        before = knob.read()
    set_knob(WRITEBACK, "0")
    yield
    set_knob(WRITEBACK, before)


def set_knob(path, value):
    with open(path, "w") as knob:
        knob.write(value)


def main():
    mine, mount, other = sys.argv[1], Mount(sys.argv[2]), Other(sys.argv[3])
    before, calls = server()
    returned = {name: mount.operations(name) for name in ("DELEGRETURN", "LAYOUTRETURN")}
    trace()
    for_reading(f"{mine}/read", other, mount)
    fd = for_writing(f"{mine}/written", other, mount)
    wanted = layout(fd, other, mount)
    os.close(fd)
    same_bytes(other.read("written"), wanted, "the other's read of what both wrote")
    seen = {event: traced(event) for event in EVENTS}
    callbacks = seen[RECALL] + seen[LAYOUT_RECALL]
    expect(seen[CALL] >= callbacks, f"callbacks that did not come over RDMA: {seen}")
    kinds = {words.split()[0] for words in mountstats.parse(mount.path)["transports"]}
    equal(kinds, {"rdma"}, "transports of the mount")
    after, calls_after = server()
    recalls, revoked = (after[name] - before[name] for name in ("delegations_recalled", "delegations_revoked"))
    expect(recalls >= 2, f"the server knows of {recalls} recalls of delegations")
    equal(revoked, 0, "delegations that did not come back")
    sent = sum(calls_after[conn] - n for conn, n in calls.items() if conn in calls_after)
    expect(sent >= callbacks, f"the server has sent {sent} calls over the mount's connection, not {callbacks}")
    print(f"the server: {recalls} recalls of delegations, {sent} calls over the mount's RDMA connection")
    seen.update((name, mount.operations(name) - n) for name, n in returned.items())
    print("the kernel:", ", ".join(f"{name} {count}" for name, count in seen.items()))
    # Linux keeps what it has of a file that it writes, whoever else writes it.
    drop_caches()
    same_bytes(read(f"{mine}/written"), wanted, "the mount's read of what both wrote")


run(main)
