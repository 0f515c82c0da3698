"""Whether data servers are connected to at each of these addresses: rails.py PORT ADDRESS... (PORT is the MDS's own)."""

import os
import sys

sys.path.insert(0, os.path.join(os.environ.get("LIB", "/run/job/guest"), "siw"))
import transports


def main():
    port, wanted = int(sys.argv[1]), sys.argv[2:]
    seen = list(transports.connections())
    print(seen)
    there = {address for kind, address, to, up in seen if up and kind == "rdma" and to != port}
    missing = [one for one in wanted if not any(address.split(":")[0] == one for address in there)]
    if missing:
        raise SystemExit(f"no connection to {missing}")


if __name__ == "__main__":
    main()
