"""`make simulate SEED=7 SCHEDULES=1000`: the exactly-once half of the product in a simulated world, schedule by schedule.

The seeds of the schedules follow each other from SEED on. `--trace` replays one schedule and prints each operation.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections import Counter

from tests.chaos.simulation.schedule import Outcome, Simulation


def main() -> int:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--trace", action="store_true", help="run the schedule of this seed alone, and print its steps")
    parser.add_argument("--go-on", action="store_true", help="do not stop at the first schedule with a violation")
    parser.add_argument("--old-brokers", action="store_true", help="brokers without part 1 of KIP-890")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if arguments.trace:
        outcome = Simulation(arguments.seed, print, verifies=not arguments.old_brokers).run()
        print(_line(outcome))  # noqa: T201
        return bool(outcome.wrong)
    return _campaign(arguments)


def _campaign(arguments: argparse.Namespace) -> int:
    began, happened, failed, steps, seconds, done = time.perf_counter(), Counter[str](), 0, 0, 0.0, 0
    for seed in range(arguments.seed, arguments.seed + arguments.schedules):
        outcome = Simulation(seed, verifies=not arguments.old_brokers).run()
        happened.update(outcome.faults)
        steps, seconds, done = steps + outcome.steps, seconds + outcome.seconds, done + 1
        if outcome.wrong:
            failed += 1
            print(_line(outcome), flush=True)  # noqa: T201
            if not arguments.go_on:
                break
    took = time.perf_counter() - began
    print(  # noqa: T201
        f"{done:,} schedules in {took:.0f} s ({60 * done / took:,.0f} a minute), {steps:,} operations, "
        f"{seconds / 3600:,.1f} simulated hours, {happened.total():,} faults of {len(happened)} kinds; {failed} failed"
    )
    return bool(failed)


def _line(outcome: Outcome) -> str:
    head = f"seed {outcome.seed}: {outcome.setting}; {', '.join(outcome.faults) or 'no fault'}"
    return "\n  ".join([head, *(outcome.wrong or ["nothing is wrong"])])


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of texts must have one order
        os.execve(sys.executable, [sys.executable, "-m", "tests.chaos.simulation", *sys.argv[1:]], os.environ | {"PYTHONHASHSEED": "0"})
    sys.exit(main())
