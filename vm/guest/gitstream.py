"""Prints a git fast-import stream: 20 commits over 8 directories of 25 files, from one seed."""

import random
import sys

DIRECTORIES, FILES, COMMITS = 8, 25, 20


def blob(out, text):
    content = text.encode()
    out.write(b"data %d\n" % len(content) + content + b"\n")


def main():
    rng = random.Random(42)
    out = sys.stdout.buffer
    paths = [f"dir_{d:02}/file_{f:03}.txt" for d in range(DIRECTORIES) for f in range(FILES)]
    for commit in range(COMMITS):
        out.write(b"commit refs/heads/main\n")
        out.write(b"committer maker <maker@example.org> %d +0000\n" % (1700000000 + commit * 60))
        blob(out, f"commit {commit}")
        for path in paths if commit == 0 else rng.sample(paths, 12):
            out.write(f"M 100644 inline {path}\n".encode())
            lines = (f"{rng.getrandbits(128):032x}" for _ in range(rng.randint(5, 300)))
            blob(out, f"{path} {commit}\n" + "\n".join(lines))
        out.write(b"\n")
    out.write(b"done\n")


main()
