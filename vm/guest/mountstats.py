"""Reads /proc/self/mountstats of one mount.

    mountstats.py DIR              a summary as JSON
    mountstats.py DIR OPERATION    how often the operation was sent (0 when it never was)
    mountstats.py DIR layouts      bytes, layout and DS traffic, on one readable line
    mountstats.py DIR by-layout    READs and WRITEs by a layout (by-mds: all others)
"""

import json
import sys

# Fields of the "bytes:" line in the kernel's order.
BYTES = [
    "normal_read", "normal_write", "direct_read", "direct_write",
    "server_read", "server_write", "read_pages", "write_pages",
]
# The last two fields of the "events:" line: I/O that went by a layout.
PNFS_EVENTS = ["pnfs_reads", "pnfs_writes"]


def parse(mount):
    """The statistics of the mount, or an exception when there is none."""
    found = None
    with open("/proc/self/mountstats") as lines:
        for line in lines:
            words = line.split()
            if line.startswith("device "):
                if found is not None:
                    break
                if f" mounted on {mount} with fstype nfs" in line:
                    found = {"operations": {}, "bytes": {}, "layout_type": None}
                continue
            if found is None or not words:
                continue
            if words[0] == "bytes:":
                found["bytes"] = dict(zip(BYTES, map(int, words[1:])))
            elif words[0] == "events:":
                found.update(zip(PNFS_EVENTS, map(int, words[-2:])))
            elif words[0] == "nfsv4:":
                for item in line.split(None, 1)[1].strip().split(","):
                    if item.startswith("pnfs="):
                        found["layout_type"] = item[len("pnfs="):]
            elif words[0] == "xprt:":
                found.setdefault("transports", []).append(" ".join(words[1:3]))
            elif words[0].endswith(":") and words[0][:-1].isupper() and len(words) >= 9:
                found["operations"][words[0][:-1]] = int(words[1])
    if found is None:
        raise SystemExit(f"{mount} is no mount of NFS")
    return found


def main():
    stats = parse(sys.argv[1])
    if len(sys.argv) < 3:
        stats["operations"] = {k: v for k, v in stats["operations"].items() if v}
        print(json.dumps(stats))
    elif sys.argv[2] == "layouts":
        count = stats["operations"].get
        print(
            f"layout type {stats['layout_type']}, LAYOUTGET {count('LAYOUTGET', 0)}, "
            f"GETDEVICEINFO {count('GETDEVICEINFO', 0)}, LAYOUTCOMMIT {count('LAYOUTCOMMIT', 0)}, "
            f"READ {count('READ', 0)} and WRITE {count('WRITE', 0)}, of them by layout "
            f"{stats['pnfs_reads']} and {stats['pnfs_writes']}"
        )
    elif sys.argv[2] in ("by-layout", "by-mds"):
        count = stats["operations"].get
        by_layout = stats["pnfs_reads"] + stats["pnfs_writes"]
        # Kernels differ in whether I/O on data servers is among the mount's READs and WRITEs.
        by_mds = max(0, count("READ", 0) + count("WRITE", 0) - by_layout)
        print(by_layout if sys.argv[2] == "by-layout" else by_mds)
    else:
        print(stats["operations"].get(sys.argv[2], 0))


if __name__ == "__main__":
    main()
