"""Workers and state servers may be killed at any time; a new start finds the state."""

from __future__ import annotations

import json
import os
import signal
import threading
from contextlib import suppress
from pathlib import Path

import pytest

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

KEYS, TUPLES = 20, 1500
FILE = """
buckets: 2
max_records_per_batch: 150
trigger_interval: 0.1
streams:
  in: {schema: {k: string, v: int64}}
  out: {marks: none}
operators:
  - name: sums
    aggregate: in
    window: sliding, count(30), count(1), partitioned
    partition_by: [k]
    aggregate_incomplete_windows: true
    output: {out: {k: k, n: Count(), s: Sum(v)}}
"""


def send(service, first, count):
    values = [{"k": f"key {n % KEYS}", "v": n} for n in range(first, first + count)]
    service.send("in", [{"value": json.dumps(value), "key": value["k"]} for value in values])


def expected():
    for n in range(TUPLES):
        held = range(n, -1, -KEYS)[:30]
        yield {"tuple": {"k": f"key {n % KEYS}", "n": len(held), "s": sum(held)}}


def by_key(outputs):
    return sorted(outputs, key=lambda output: (output["tuple"]["k"], output["tuple"]["s"], output["tuple"]["n"]))


def test_state_servers_that_are_killed_again_and_again_leave_no_trace(service):
    service.create("in")
    pipeline = service.pipeline(FILE.replace("trigger_interval: 0.1", "trigger_interval: 0.5"))
    send(service, 0, TUPLES)
    over, killed = threading.Event(), []

    def kill():
        while not over.wait(0.4):
            for number in state_servers():
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
                    killed.append(number)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        service.run(pipeline)
    finally:
        over.set()
        killer.join()
    assert len(set(killed)) >= 4
    assert by_key(service.outputs("out")) == by_key(expected())


def test_a_new_start_goes_on_where_the_last_one_ended(service):
    service.create("in")
    pipeline = service.pipeline(FILE)
    for first in range(0, TUPLES, TUPLES // 4):
        send(service, first, TUPLES // 4)
        service.run(pipeline)
    assert by_key(service.outputs("out")) == by_key(expected())


def test_no_more_state_servers_are_requested_than_there_are_buckets(service):
    service.create("in")
    before, seen = set(state_servers()), set()
    send(service, 0, TUPLES)

    def look():
        seen.update(set(state_servers()) - before)
        return True

    service.run(service.pipeline(FILE), until=look)  # the end of the run ends them
    assert len(seen) == 2


def state_servers():
    """Those of our processes: other tests have theirs at the same time."""
    parents, named = {}, set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if (folder / "comm").read_text() == "sluice-bucket\n":
                named.add(int(folder.name))
        except OSError:
            continue
    return [number for number in named if is_ours(number, parents) and parents[number] not in named]


def is_ours(number, parents):
    while number > 1 and number != os.getpid():
        number = parents.get(number, 0)
    return number == os.getpid()
