"""Says how many bytes each data server carried, from the client's own TCP sockets.

    dstraffic.py MDS_ADDRESS:PORT DS_COUNT MIB

Fails unless DS_COUNT peers besides the MDS carried data both ways, MIB of it in all.
"""

import re
import subprocess
import sys

from check import equal, expect, note, run


def peers():
    """Bytes sent and received by peer address and port, of established connections."""
    # The kernel's own sockets are listed like any other; -i adds the counters.
    text = subprocess.run(["ss", "-Htino"], capture_output=True, text=True, check=True).stdout
    found = {}
    for block in re.split(r"\n(?=\S)", text):
        words = block.split()
        if len(words) < 5 or words[0] != "ESTAB":
            continue
        peer = words[4]
        sent, received = found.get(peer, (0, 0))
        sent += int((re.search(r"bytes_acked:(\d+)", block) or [0, 0])[1])
        received += int((re.search(r"bytes_received:(\d+)", block) or [0, 0])[1])
        found[peer] = (sent, received)
    return found


def main():
    mds, wanted, mib = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    servers = {peer: counts for peer, counts in peers().items() if peer != mds}
    for peer, (sent, received) in sorted(servers.items()):
        note(f"{peer}: sent {sent >> 10} KiB, received {received >> 10} KiB")
    share = (mib << 20) // wanted // 2
    busy = [p for p, (sent, received) in servers.items() if sent > share and received > share]
    equal(len(busy), wanted, "data servers that carried at least half of an even share")
    total = sum(sent for sent, _ in servers.values())
    expect(total >= mib << 20, f"the data servers were sent {total} bytes, fewer than were written")


run(main)
