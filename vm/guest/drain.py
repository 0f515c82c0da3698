"""Work that goes on while places of a cluster with two copies move between data servers: drain.py DIR.

We say "stepN" when all workers are under way. The host answers "doneN" when what it ordered is done, or "end" when it
orders nothing more. We note the longest steps of the workers in between. Only an error, or what takes LIMIT_S, fails.
"""

import itertools
import sys
import time

from check import note, run, tell, told
from work import Work
from workers import make_sources

# Workers whose longest step is noted.
NOTED = 3


def await_order(work, number):
    """Waits until the order of the host is done, while all workers work; returns whether there was one."""
    tell(f"step{number}")
    while not told(f"done{number}"):
        if told("end"):
            return False
        # The host hears of a failure when it waits for the next step.
        work.check(f"in step {number}", number + 1)
        time.sleep(0.05)
    return True


def main():
    make_sources()
    work = Work(f"{sys.argv[1]}/work")
    work.go_on("before the first order", 0)
    work.pauses()
    for number in itertools.count():
        if not await_order(work, number):
            break
        # A worker that hangs since the order does not get through this.
        work.go_on(f"after step {number}", number + 1)
        longest = ", ".join(f"{name} {seconds:.1f}" for seconds, name in work.pauses()[:NOTED])
        note(f"step {number}: longest pauses, s: {longest}")
    work.end(number)
    tell(f"ended{number}")
    work.compare()
    note(", ".join(f"{worker.name} {worker.done} steps" for worker in work.turns))


run(main)
