"""A service is killed, all its local files are deleted, and it is started again with another, empty folder.

The outputs equal those of an undisturbed run, each once: `replay` of the same records is the independent calculation.
`make test-lost-disks` runs all of it; SLUICE_TEST_SEED and SLUICE_TEST_LOSSES choose other moments, and more of them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from sluice.kafka import ledger
from tests.object_store.conftest import s3 as s3  # noqa: PLC0414 - a fixture
from tests.object_store.s3_server import S3Server
from tests.recovery.harness.output_reader import Record
from tests.recovery.harness.service import CLOCK, ORIGIN, Service
from tests.recovery.harness.waiting import wait_until
from tests.recovery.test_pipelines_across_kills import instant

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SEED = int(os.environ.get("SLUICE_TEST_SEED", "7"))
#: how often each service loses its machine
LOSSES = int(os.environ.get("SLUICE_TEST_LOSSES", "2"))
#: records between two losses
PART = 150
#: where a batch is when the machine is lost (pausing/sitecustomize.py); "rest": no batch runs
MOMENTS = ("rest", "feeding", "produced", "written")
#: where a restore is when it is killed: before Spark's logs are written, and when all is written and nothing is moved
IN_A_RESTORE = ("restoring", "restored")


class Case(NamedTuple):
    """A pipeline, the input streams of which one has `partitions` topic partitions each, and its records."""

    text: str
    inputs: tuple[str, ...]
    record: Callable[[int], tuple[str, Record]]
    last: tuple[tuple[str, Record], ...] = ()
    #: what is in the topics before the first start
    before: tuple[tuple[str, Record], ...] = ()


def of_one(n: int) -> tuple[str, Record]:
    return "in", {"k": f"key {n % 7}", "v": n}


def timed(n: int) -> tuple[str, Record]:
    """Some come 5 ms too late, which is in time."""
    return "in", {"k": f"key {n % 7}", "v": n, "t": instant(ORIGIN + n - (5 if n % 5 == 0 else 0))}


def in_visits(n: int) -> tuple[str, Record]:
    """Ten tuples close to each other, then a gap of a second."""
    return "in", {"k": f"key {n % 3}", "v": n, "t": instant(ORIGIN + n + n // 10 * 1000)}


def of_two_in_time(n: int) -> tuple[str, Record]:
    stream, record = of_two(n)
    return stream, record | {"t": instant(ORIGIN + n)}


def of_two(n: int) -> tuple[str, Record]:
    return ("left", {"k": f"key {n % 7}", "a": n}) if n % 2 else ("right", {"k": f"key {n * 3 % 7}", "b": n})


def of_shops(n: int) -> tuple[str, Record]:
    return "in", {"k": f"shop {n % 5}", "customer": f"customer {n * 7 % 11}", "v": n}


HEAD = "max_records_per_batch: 40\nclock: records\n"
TIMED = "schema: {k: string, v: int64, t: timestamp}, event_time: {attribute: t, lag: 0.02, minimum_gap: 0.01}"


def aggregate(window: str, stream: str = "schema: {k: string, v: int64}", more: str = "") -> str:
    return f"""{HEAD}
streams:
  in: {{{stream}}}
  out: {{marks: none}}
operators:
  - name: window
    aggregate: in
    window: {window}
    partition_by: [k]
    output: {{out: {{k: Last(k), n: Count(), s: Sum(v), most: Max(v)}}}}
    {more}
"""


JOIN = f"""{HEAD}
merge: timestamp
streams:
  left: {{schema: {{k: string, a: int64}}}}
  right: {{schema: {{k: string, b: int64}}}}
  both: {{marks: none}}
  alone: {{marks: none}}
operators:
  - name: match
    join: {{left: left, right: right}}
    window_left: sliding, count(20)
    window_right: sliding, count(20)
    equality_left: [k]
    equality_right: [k]
    match: (a + b) % 3 == 0
    algorithm: leftOuter
    unmatched_left: alone
    output: {{both: {{k: left.k, a: a, b: b}}}}
"""
STAGES = f"""{HEAD}
streams:
  in: {{schema: {{k: string, customer: string, v: int64}}}}
  totals: {{exchange: true, partitions: 1}}
  best: {{}}
operators:
  - name: totals
    aggregate: in
    window: tumbling, count(2), partitioned
    partition_by: [k]
    output: {{totals: {{shop: Last(k), customer: Last(customer), v: Sum(v)}}}}
  - name: best
    aggregate: totals
    window: sliding, count(3), count(1), partitioned
    partition_by: [customer]
    aggregate_incomplete_windows: true
    output: {{best: {{k: Last(customer), all: Collect(v)}}}}
"""
EVENT_JOIN = f"""{HEAD}
merge: timestamp
streams:
  left: {{schema: {{k: string, a: int64, t: timestamp}}, event_time: {{attribute: t, minimum_gap: 0.01}}}}
  right: {{schema: {{k: string, b: int64, t: timestamp}}, event_time: {{attribute: t, minimum_gap: 0.01}}}}
  both: {{marks: none}}
operators:
  - name: near
    join: {{left: left, right: right}}
    window: interval, before(0.03), after(0.02)
    equality_left: [k]
    equality_right: [k]
    output: {{both: {{k: left.k, a: a, b: b}}}}
"""
AS_OF = f"""{HEAD}
merge: timestamp
streams:
  left: {{schema: {{k: string, a: int64, t: timestamp}}, event_time: {{attribute: t, lag: 0.02, minimum_gap: 0.01}}}}
  right: {{schema: {{k: string, b: int64, t: timestamp}}, event_time: {{attribute: t, lag: 0.02, minimum_gap: 0.01}}}}
  both: {{marks: none}}
operators:
  - name: latest
    join: {{left: left, right: right}}
    window: asOf, maximumAge(0.05)
    equality_left: [k]
    equality_right: [k]
    algorithm: leftOuter
    output: {{both: {{k: left.k, a: a, b: b}}}}
"""
TABLE = f"""{HEAD}
streams:
  in: {{schema: {{k: string, v: int64}}}}
  names: {{schema: {{k: string, name: string}}, key: {{attributes: [k], format: text}}, table: true}}
  named: {{marks: none}}
operators:
  - name: name
    join: {{left: in, right: names}}
    equality_left: [k]
    equality_right: [k]
    output: {{named: {{k: left.k, v: v, name: name}}}}
"""
ROWS = tuple(("names", {"k": f"key {n}", "name": f"name {n}"}) for n in range(6))  # and none of key 6
SORT = f"""{HEAD}
streams:
  in: {{schema: {{k: string, v: int64}}}}
  out: {{marks: none}}
operators:
  - name: highest
    sort: in
    window: sliding, count(5), partitioned
    partition_by: [k]
    order_by: {{v: desc}}
    output: [out]
"""
DEDUP = f"""{HEAD}
streams:
  in: {{schema: {{k: string, v: int64}}}}
  first: {{}}
  out: {{marks: none}}
operators:
  - name: first
    dedup: in
    by: [k]
    within: time(0.05)
    keep: last
    output: [first]
  - name: window
    aggregate: first
    window: tumbling, count(1), partitioned
    partition_by: [k]
    output: {{out: {{k: Last(k), v: Last(v)}}}}
"""
CASES = {
    "tumbling count": Case(aggregate("tumbling, count(9), partitioned"), ("in",), of_one),
    "tumbling delta": Case(aggregate("tumbling, delta(v, 50), partitioned"), ("in",), of_one),
    "sliding count": Case(
        aggregate("sliding, count(30), count(1), partitioned", more="aggregate_incomplete_windows: true"),
        ("in",),
        of_one,
    ),
    "sliding time": Case(aggregate("sliding, time(0.06), count(1), partitioned"), ("in",), of_one),
    "timeInterval": Case(aggregate("timeInterval, intervalDuration(0.05), partitioned", TIMED), ("in",), timed),
    "slidingTime": Case(aggregate("slidingTime, timeDifference(0.05)", TIMED), ("in",), timed),
    "session": Case(aggregate("session, inactivityGap(0.5)", TIMED), ("in",), in_visits),
    "sort": Case(SORT, ("in",), of_one),
    "dedup": Case(DEDUP, ("in",), of_one),
    "join": Case(JOIN, ("left", "right"), of_two, (("left", CLOCK), ("right", CLOCK))),
    "event join": Case(EVENT_JOIN, ("left", "right"), of_two_in_time, (("left", CLOCK), ("right", CLOCK))),
    "as-of join": Case(AS_OF, ("left", "right"), of_two_in_time, (("left", CLOCK), ("right", CLOCK))),
    "table join": Case(TABLE, ("in", "names"), of_one, before=ROWS),
    "stages": Case(STAGES, ("in",), of_shops),
}


def records(case: Case) -> Iterator[list[tuple[str, Record]]]:
    """What is sent before each loss, and after the last one."""
    for number in range(LOSSES + 1):
        some = [case.record(n) for n in range(number * PART, (number + 1) * PART)]
        yield some + list(case.last) * (number == LOSSES)


def await_batch(service: Service, number: int) -> None:
    service.wait_until(lambda: position(service) >= number, f"{number} batches are written")


def position(service: Service) -> int:
    found = ledger.read_position(service.kafka, service.name, "read_uncommitted")
    return found.next_batch if found else 0


#: the number of snapshots in the store of `state:`; None without one
Count = Callable[[], int] | None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tumbling count", "join", "table join", "stages"])
def test_a_service_goes_on_without_its_folder(services, name):
    """Without a store for snapshots: the state is computed from the first batch of the ledger on."""
    goes_on(services, name, "", None)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_service_goes_on_from_snapshots_in_another_folder(services, name, tmp_path):
    goes_on(services, name, in_folder(tmp_path), lambda: len(list(tmp_path.rglob("*.state"))))


@pytest.mark.slow
@pytest.mark.s3
@pytest.mark.parametrize("name", ["sliding count", "stages"])
def test_a_service_with_direct_records_goes_on_from_snapshots_in_an_object_store(services, name, s3):
    """Its process is lost in batches that it computes itself."""
    text, count = in_object_store(s3, f"direct/{name.replace(' ', '-')}")
    goes_on(services, name, f"{text}direct_records: 40\n", count, ("direct", "produced", "written"))


@pytest.mark.slow
@pytest.mark.s3
@pytest.mark.parametrize("name", CASES)
def test_a_service_goes_on_from_snapshots_in_an_object_store(services, name, s3):
    goes_on(services, name, *in_object_store(s3, f"lost/{name.replace(' ', '-')}"))


def in_folder(folder: Path) -> str:
    return f"state: {folder}/snapshots\nsnapshot_interval: 0.5\nsnapshot_records: 30\n"


def in_object_store(s3: S3Server, prefix: str) -> tuple[str, Count]:
    """The settings of a pipeline file, and the number of snapshots below the prefix."""
    store = s3.store(prefix)
    text = f"state: s3://bucket/{prefix}\nsnapshot_interval: 0.5\nsnapshot_records: 30\nstate_options: {s3.options}\n"
    return text, lambda: sum(name.endswith(".state") for name in store.list())


def goes_on(
    services: Callable[..., Service], name: str, settings: str, snapshots: Count, moments: tuple[str, ...] = MOMENTS
) -> None:
    """Sends the records part after part, and loses the machine after each part but the last one."""
    case, chance = CASES[name], random.Random(f"{SEED} {name} {settings.partition(':')[2][:5]}")
    service = services(settings + case.text)
    service.create(*case.inputs, partitions=1)
    service.send_all(case.before)
    *parts, last = records(case)
    for some in parts:
        service.start()
        half = len(some) // 2
        service.send_all(some[:half])
        if snapshots is None:
            await_batch(service, 1)  # before it there is nothing that a start could restore
        else:
            service.wait_until(snapshots, "the store has a snapshot")
        lose_machine(service, chance.choice(moments), some[half:], chance)
        if chance.random() < 0.5:
            kill_the_restore(service, chance.choice(IN_A_RESTORE))
    service.start()
    service.send_all(last)
    service.await_outputs()
    service.end()
    lines = service.whole_log().splitlines()
    assert len([line for line in lines if "it is restored to batch" in line]) >= LOSSES
    restored = [line for line in lines if "checkpoint restored" in line]  # missing after a kill at "restored"
    assert snapshots is None or not restored or any("the store" in line for line in restored), restored


def lose_machine(service: Service, moment: str, some: list[tuple[str, Record]], chance: random.Random) -> None:
    """Loses the machine at the moment, while or after the service reads these records."""
    if moment == "rest":
        service.await_log("message=running")  # a start that is killed earlier has restored nothing
        before = position(service)
        service.send_all(some)
        await_batch(service, before + chance.randint(0, 2))
    else:
        service.at(moment)
        service.send_all(some)
        service.await_moment(moment)
    service.lose_machine()


def kill_the_restore(service: Service, moment: str) -> None:
    """The next start is killed in the middle of the restore. Its folder stays."""
    service.at(moment)
    service.start()
    service.await_moment(moment)
    service.kill()


@pytest.mark.slow
def test_windows_of_the_clock_count_every_record_once(services):
    """The idle clock's times are part of the plans: what the machine's clock has caused comes out as it came out."""
    service = services("""
trigger_interval: 0.1
streams:
  in: {schema: {k: string, v: int64}}
  out: {marks: none}
operators:
  - name: counts
    aggregate: in
    window: tumbling, time(0.4)
    output: {out: {k: Last(k), n: Count(), all: Collect(v)}}
""")
    service.create("in", partitions=1)
    for number in range(LOSSES + 1):
        service.start()
        service.send("in", [{"k": "a", "v": n} for n in range(number * PART, (number + 1) * PART)])
        if number < LOSSES:
            await_batch(service, position(service) + 1)
            service.lose_machine()

    def values() -> list[int]:
        return [v for some in service.outputs("out").values() for one in some for v in one["tuple"]["all"]]

    wait_until(lambda: len(values()) >= len(service.events), "every record is in a window", log=service.log)
    service.end()
    assert sorted(values()) == list(range(len(service.events)))
