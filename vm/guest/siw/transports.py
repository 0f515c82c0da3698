"""Asserts which transports the kernel's connections have.

    transports.py DIR SERVER PORT DATA

The mount's own (mountstats) is RDMA to PORT; those to data servers (the same host, other ports) are DATA; none: there
are none.
"""

import glob
import os
import sys

sys.path.insert(0, os.environ.get("LIB", "/run/job/guest"))
import mountstats


def connections():
    """(kind, port) of each connected transport of the kernel's RPC client."""
    for path in glob.glob("/sys/kernel/sunrpc/xprt-switches/switch-*/xprt-*"):
        kind = os.path.basename(path).split("-", 2)[2]
        with open(os.path.join(path, "dstaddr")) as file:
            address = file.read().strip()
        info = {}
        with open(os.path.join(path, "xprt_info")) as file:
            info = dict(line.strip().split("=", 1) for line in file if "=" in line)
        with open(os.path.join(path, "xprt_state")) as file:
            state = file.read()
        yield kind, address, int(info.get("dst_port", 0)), "CONNECTED" in state


def main():
    mount, server, port, data = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    own = mountstats.parse(mount).get("transports", [])
    kinds = sorted({words.split()[0] for words in own})
    if kinds != ["rdma"]:
        raise SystemExit(f"the mount's transports are {kinds}")
    seen = [one for one in connections() if one[1].startswith(server)]
    print(f"mountstats: xprt: {', '.join(own)}; sysfs: {seen}")
    to_mds = [kind for kind, _, to, _ in seen if to == port]
    to_ds = [kind for kind, _, to, up in seen if to != port and up]
    if set(to_mds) != {"rdma"}:
        raise SystemExit(f"connections to the MDS are {to_mds}")
    if (set(to_ds) or {"none"}) != {data}:
        raise SystemExit(f"connections to data servers are {to_ds}, not {data}")


if __name__ == "__main__":
    main()
