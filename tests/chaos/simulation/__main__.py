"""`make simulate SEED=7 SCHEDULES=1000`: the exactly-once half of the product in a simulated world.

The seeds of the schedules follow each other from SEED on. `--trace` replays one schedule and prints each operation.
"""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime

from benchmarks.machine import machine
from benchmarks.results_page import write
from tests.chaos.simulation import campaign
from tests.chaos.simulation.schedule import KINDS, Simulation


def main() -> int:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--trace", action="store_true", help="run the schedule of this seed alone, and print its steps")
    parser.add_argument("--go-on", action="store_true", help="do not stop at the first schedule with a violation")
    parser.add_argument("--kind", action="append", default=[], choices=KINDS, help="schedules of this kind alone")
    parser.add_argument("--write", action="store_true", help="put the figures into docs/chaos.md")
    parser.add_argument("--old-brokers", action="store_true", help="brokers without part 1 of KIP-890")
    arguments = parser.parse_args()
    campaign.quiet()
    verifies = not arguments.old_brokers
    if arguments.trace:
        outcome = Simulation(arguments.seed, print, verifies=verifies, kinds=arguments.kind).run()
        print(campaign.line(outcome))  # noqa: T201
        return bool(outcome.wrong)
    result = campaign.run(
        arguments.seed, arguments.schedules, arguments.processes,
        verifies=verifies, kinds=arguments.kind, stop=not arguments.go_on,
    )  # fmt: skip
    for outcome in result.failed:
        print(campaign.line(outcome))  # noqa: T201
    print(result)  # noqa: T201
    if arguments.write:
        write(
            "simulation",
            [f"{machine()}, {datetime.now(UTC):%Y-%m-%d}, from seed {arguments.seed} on: {result}."],
            "docs/chaos.md",
        )
    return bool(result.failed)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of texts must have one order
        command = [sys.executable, "-m", "tests.chaos.simulation", *sys.argv[1:]]
        os.execve(sys.executable, command, os.environ | {"PYTHONHASHSEED": "0"})  # noqa: S606
    sys.exit(main())
