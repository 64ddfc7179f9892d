"""A service is stopped or killed, its file is changed, and it goes on; some changes are killed in their middle, too.

    before the change    sums, last, pairs, first
    after it             recent, sums, last, pairs

`sums` is kept: it gives what one that was never disturbed gives. `last` is trimmed or filling: it goes on with the
tuples that it held. `pairs` is rebuilt where Kafka still has the records, and gives what one gives that was there from
the first record on; otherwise it is emptied, and each half is calculated alone. `first` is removed, and gives nothing
more. `recent` is new: it sees what is read after the change only. `replay` of each operator alone is the independent
calculation. SLUICE_TEST_SEED chooses other moments.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.recovery.harness.output_reader import Record, topic_partition
from tests.recovery.harness.service import ORIGIN, TOPIC_PARTITIONS, Place, Service
from tests.recovery.test_pipelines_across_kills import instant

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SEED = int(os.environ.get("SLUICE_TEST_SEED", "7"))
#: records before and after each change
PART = 150
#: where a batch is when the service is killed before the change
MOMENTS = ("feeding", "produced", "written")
#: where a change is when it is killed: before Spark's logs are written; when all is written and nothing is moved; when
#: all is moved and the ledger does not know it; when the ledger knows it
IN_A_CHANGE = ("converting", "converted", "adopted", "recorded")

HEAD = "max_records_per_batch: 40\nclock: records\nbuckets: 2\n"
SUMS = """
  - name: sums
    aggregate: in
    window: sliding, count(30), count(1), partitioned
    partition_by: [k]
    aggregate_incomplete_windows: true
    output: {sums: {k: Last(k), n: Count(), s: Sum(v)}}
"""
PAIRS = """
  - name: pairs
    aggregate: in
    window: tumbling, count(SIZE), partitioned
    partition_by: [k]
    output: {pairs: {k: Last(k), all: Collect(v)}}
"""
LAST = """
  - name: last
    aggregate: in
    window: sliding, count(SIZE), count(1), partitioned
    partition_by: [k]
    aggregate_incomplete_windows: true
    output: {last: {k: Last(k), all: Collect(v)}}
"""
FIRST = """
  - name: first
    dedup: in
    by: [k]
    within: time(0.05)
    output: [first]
"""
RECENT = """
  - name: recent
    aggregate: in
    window: sliding, time(0.06), count(1), partitioned
    partition_by: [k]
    output: {recent: {k: Last(k), n: Count(), s: Sum(v)}}
"""


def text_of(*operators: str, streams: Iterable[str], head: str = HEAD) -> str:
    outputs = "".join(f"  {stream}: {{marks: none}}\n" for stream in streams)
    schema = "  in: {schema: {k: string, v: int64}}\n"
    return f"{head}streams:\n{schema}{outputs}operators:{''.join(operators)}"


BEFORE = text_of(
    SUMS, LAST.replace("SIZE", "5"), PAIRS.replace("SIZE", "9"), FIRST, streams=["sums", "last", "pairs", "first"]
)


def after(size: int) -> str:
    """The changed file; `size` is the new size of the window `last`."""
    operators = [RECENT, SUMS, LAST.replace("SIZE", str(size)), PAIRS.replace("SIZE", "4")]
    return text_of(*operators, streams=["recent", "sums", "last", "pairs"])


def records(number: int) -> list[tuple[str, Record]]:
    return [("in", {"k": f"key {n % 7}", "v": n}) for n in range(number * PART, (number + 1) * PART)]


def alone(service: Service, folder: Path, text: str, events: list[Record]) -> dict[Place, list[Record]]:
    """What `replay` gives for these events and a pipeline file of its own, by stream and topic partition."""
    own = Service(service.kafka, folder, service.name, text)
    own.adopt(service)
    return own.expected(events) if events else {}


def joined(*parts: dict[Place, list[Record]]) -> dict[Place, list[Record]]:
    found: dict[Place, list[Record]] = {}
    for part in parts:
        for place, some in part.items():
            found.setdefault(place, []).extend(some)
    return found


def read_so_far(service: Service) -> list[Record]:
    """The events that the batches in the ledger have read, in order."""
    ends, seen, found = service.last_plan(), dict[tuple[str, int], int](), []
    for event in service.events:
        place = (service.topic(event["stream"]), event["topic_partition"])
        seen[place] = seen.get(place, 0) + 1
        if seen[place] <= ends[place]:
            found.append(event)
    return found


def upgrade(service: Service) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sluice", "upgrade", str(service.file)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def changed(service: Service, text: str) -> None:
    """The next start has this pipeline file."""
    service.text = text
    service.__dict__.pop("pipeline", None)
    service.write_file()


def stop_before_the_change(service: Service, moment: str) -> None:
    """Sends the first records, and ends the service in order (at rest) or kills it at the moment."""
    service.create("in", partitions=1)
    service.start()
    first, second = records(0)[: PART // 2], records(0)[PART // 2 :]
    service.send_all(first)
    service.await_rest()
    if moment == "rest":
        service.send_all(second)
        service.await_rest()
        service.end()
        return
    service.at(moment)
    service.send_all(second)
    service.await_moment(moment)
    service.kill()


@pytest.mark.slow
@pytest.mark.parametrize("retained", [True, False], ids=["inputs retained", "inputs deleted"])
@pytest.mark.parametrize("in_change", [None, *IN_A_CHANGE])
def test_each_operator_goes_on_as_its_word_says(
    services: Callable[..., Service], tmp_path: Path, in_change: str | None, *, retained: bool
):
    chance = random.Random(f"{SEED} {in_change} {retained}")
    service, size = services(BEFORE), chance.choice((3, 8))
    stop_before_the_change(service, chance.choice(("rest", *MOMENTS)))
    before = read_so_far(service)
    if not retained:
        delete_records(service, "in", service.last_plan())
    changed(service, after(size))
    shown = upgrade(service)
    assert shown.returncode == 7, shown
    words = dict(line.split()[:2] for line in shown.stdout.splitlines() if line.startswith("  "))
    assert words == {
        "recent": "new", "sums": "kept", "last": "trimmed" if size == 3 else "filling",
        "pairs": "rebuilt" if retained else "emptied", "first": "removed",
    }  # fmt: skip
    change(service, in_change)
    service.start("--accept")
    service.send_all(records(1))
    later = [event for event in service.events if event not in before]
    old_pairs, new_pairs = (text_of(PAIRS.replace("SIZE", n), streams=["pairs"]) for n in "94")
    again = alone(service, tmp_path / "4", new_pairs, service.events if retained else later)
    given = alone(service, tmp_path / "4 before", new_pairs, before) if retained else {}
    wanted = joined(
        alone(service, tmp_path / "sums", text_of(SUMS, streams=["sums"]), service.events),
        alone(service, tmp_path / "9", old_pairs, before),
        {place: some[len(given.get(place, ())) :] for place, some in again.items()},
        alone(service, tmp_path / "first", text_of(FIRST, streams=["first"]), before),
        alone(service, tmp_path / "recent", text_of(RECENT, streams=["recent"]), later),
        last_values(before, later, size),
    )
    service.await_outputs(expected=wanted)
    service.end()
    again_shown = upgrade(service)
    assert again_shown.returncode == 0, again_shown


def change(service: Service, moment: str | None) -> None:
    """Without a moment: a start without --accept is refused. Else a start with it is killed at the moment."""
    if moment is None:
        service.start()
        assert service.await_end() == 4
        assert "state would be lost" in service.log()
        assert "--accept" in service.log()
        return
    service.at(moment)
    service.start("--accept")
    service.await_moment(moment)
    service.kill()


def last_values(before: list[Record], later: list[Record], size: int) -> dict[Place, list[Record]]:
    """What `last` gives: a list of each key's last 5 values, from the change on of its last `size` values."""
    held: dict[str, list[int]] = {}
    found: dict[Place, list[Record]] = {}
    for number, event in enumerate([*before, *later]):
        key, value = event["tuple"]["k"], event["tuple"]["v"]
        most = 5 if number < len(before) else size
        held[key] = [*held.get(key, []), value][-most:]
        row = {"k": key, "all": list(held[key])}
        found.setdefault(("last", topic_partition(key, TOPIC_PARTITIONS)), []).append({"tuple": row})
    return found


@pytest.mark.slow
def test_s13_a_change_that_loses_nothing_goes_on_by_itself(services: Callable[..., Service], tmp_path: Path):
    """A new operator, and another batch size."""
    service = services(text_of(SUMS, streams=["sums"]))
    stop_before_the_change(service, "rest")
    before = len(service.events)
    changed(service, text_of(RECENT, SUMS, streams=["recent", "sums"], head=HEAD.replace("40", "55")))
    assert upgrade(service).returncode == 0
    service.start()
    service.send_all(records(1))
    wanted = joined(
        alone(service, tmp_path / "sums", text_of(SUMS, streams=["sums"]), service.events),
        alone(service, tmp_path / "recent", text_of(RECENT, streams=["recent"]), service.events[before:]),
    )
    service.await_outputs(expected=wanted)
    service.end()


@pytest.mark.slow
def test_a_change_before_the_first_batch_is_written(services: Callable[..., Service]):
    """There is no state. The changed pipeline reads all records, also those of the batch that was planned."""
    service = services(BEFORE)
    service.create("in", partitions=1)
    service.at("feeding")
    service.start()
    service.send_all(records(0))
    service.await_moment("feeding")
    service.kill()
    changed(service, after(3))
    service.start("--accept")
    service.await_outputs()
    service.end()


@pytest.mark.slow
def test_a_setting_that_decides_all_times_is_refused(services: Callable[..., Service]):
    service = services(text_of(SUMS, streams=["sums"]))
    stop_before_the_change(service, "rest")
    changed(service, text_of(SUMS, streams=["sums"], head=HEAD.replace("clock: records", "clock: processing")))
    assert upgrade(service).returncode == 4
    service.start("--accept")
    assert service.await_end() == 4
    assert "cannot go on with it" in service.log()
    changed(service, text_of(SUMS, streams=["sums"]))
    service.start()
    service.send_all(records(1))
    service.await_outputs()
    service.end()


OTHER = "  other: {schema: {k: string, v: int64}}\n"


def with_another_input(text: str) -> str:
    copied = SUMS.replace("name: sums", "name: others").replace("aggregate: in", "aggregate: other")
    copied = copied.replace("{sums:", "{others:")
    return text.replace("streams:\n", f"streams:\n  others: {{marks: none}}\n{OTHER}") + copied


@pytest.mark.slow
@pytest.mark.parametrize("deleted", [0, 20])
def test_an_input_topic_is_added_and_removed(services: Callable[..., Service], tmp_path: Path, deleted: int):
    """The added topic is read from its oldest record on, also if earlier ones were deleted."""
    plain = text_of(SUMS, streams=["sums"])
    service = services(plain)
    service.create("other", partitions=2)
    stop_before_the_change(service, "rest")
    others: list[Any] = [("other", {"k": f"key {n % 7}", "v": n}) for n in range(60)]
    service.send_all(others)
    begin = len(service.events) - len(others)
    kept_others = service.events[begin:]
    if deleted:
        delete_records(service, "other", dict.fromkeys([("other", n) for n in range(2)], deleted))
        seen: dict[int, int] = {}
        kept_others = []
        for event in service.events[begin:]:
            place = event["topic_partition"]
            seen[place] = seen.get(place, 0) + 1
            if seen[place] > deleted:
                kept_others.append(event)
    changed(service, with_another_input(plain))
    service.start()
    service.send_all(records(1))
    of_sums = [event for event in service.events if event["stream"] == "in"]
    of_others = text_of(
        SUMS.replace("aggregate: in", "aggregate: other").replace("{sums:", "{others:"), streams=["others"]
    ).replace("  in: ", "  other: ")
    wanted = joined(
        alone(service, tmp_path / "sums", plain, of_sums), alone(service, tmp_path / "others", of_others, kept_others)
    )
    service.await_outputs(expected=wanted)
    service.end()
    changed(service, plain)
    service.start("--accept")
    service.send_all(records(2))
    of_sums = [event for event in service.events if event["stream"] == "in"]
    service.await_outputs(expected=alone(service, tmp_path / "again", plain, of_sums))
    service.end()


#: each kind of operator, with a size that changes so that its state means something else
KINDS = """
  - {name: counts, aggregate: in, window: "tumbling, count(A:4|5), partitioned", partition_by: [k],
     output: {counts: {k: Last(k), all: Collect(v)}}}
  - {name: early, aggregate: in, window: "tumbling, count(9), partitioned", partition_by: [k], early: count(A:2|3),
     output: {early: {k: Last(k), n: Count(), early: isEarly()}}}
  - {name: deltas, aggregate: in, window: "tumbling, delta(v, A:40|50), partitioned", partition_by: [k],
     output: {deltas: {k: Last(k), all: Collect(v)}}}
  - {name: times, aggregate: in, window: "sliding, time(0.06), count(A:1|2), partitioned", partition_by: [k],
     output: {times: {k: Last(k), n: Count(), s: Sum(v)}}}
  - {name: panes, aggregate: in, window: "timeInterval, intervalDuration(A:0.05|0.04), partitioned", partition_by: [k],
     output: {panes: {k: Last(k), n: Count(), s: Sum(v)}}}
  - {name: near, aggregate: in, window: "slidingTime, timeDifference(A:0.05|0.03)", partition_by: [k],
     output: {near: {k: Last(k), n: Count(), s: Sum(v)}}}
  - {name: visits, aggregate: in, window: "session, inactivityGap(A:0.03|0.05)", partition_by: [k],
     output: {visits: {k: Last(k), n: Count()}}}
  - {name: top, sort: in, window: "sliding, count(A:5|4), partitioned", partition_by: [k], order_by: {v: desc},
     output: [top]}
  - {name: first, dedup: in, by: [k], within: time(A:0.05|0.03), output: [first]}
  - {name: pairs, join: {left: in, right: in}, window_left: "sliding, count(0)",
     window_right: "sliding, count(A:20|15)", equality_left: [k], equality_right: [k],
     output: {pairs: {k: left.k, v: left.v, before: right.v}}}
  - {name: around, join: {left: in, right: in}, window: "interval, before(A:0.02|0.03), after(0)",
     equality_left: [k], equality_right: [k], output: {around: {k: left.k, v: left.v, before: right.v}}}
  - {name: latest, join: {left: in, right: in}, window: "asOf, maximumAge(A:0.02|0.03)",
     equality_left: [k], equality_right: [k], output: {latest: {k: left.k, v: left.v, before: right.v}}}
"""
STATELESS = "  - {name: passed, map: in, where: v % 2 == 0, output: [passed]}\n"


def of_all_kinds(side: int) -> str:
    """The pipeline file with the first (0) or the second (1) size of each operator."""
    operators = re.sub(r"A:([^|]*)\|([^),]*)", lambda sizes: sizes[side + 1], KINDS)
    streams = re.findall(r"name: (\w+),", KINDS + STATELESS)
    text = text_of(operators, STATELESS, streams=streams, head=HEAD.replace("buckets: 2", "buckets: 1"))
    timed = "t: timestamp}, event_time: {attribute: t, lag: 0.02, minimum_gap: 0.01}"
    return text.replace("v: int64}", f"v: int64, {timed}")


def timed_records(number: int) -> list[tuple[str, Record]]:
    """Every fiftieth comes after a pause, in which sessions end."""
    return [(stream, record | {"t": instant(ORIGIN + record["v"] + record["v"] // 50 * 200)})
            for stream, record in records(number)]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("word", ["kept", "rebuilt", "emptied"])
def test_each_kind_of_operator_goes_on_as_its_word_says(services: Callable[..., Service], tmp_path: Path, word: str):
    old, new = of_all_kinds(0), of_all_kinds(0 if word == "kept" else 1)
    service = services(old)
    service.create("in", partitions=1)
    service.start()
    service.send_all(timed_records(0))
    service.await_rest()
    service.end()
    before = list(service.events)
    if word == "emptied":
        delete_records(service, "in", service.last_plan())
    changed(service, new.replace("max_records_per_batch: 40", "max_records_per_batch: 55"))
    words = dict(line.split()[:2] for line in upgrade(service).stdout.splitlines() if line.startswith("  "))
    assert words == dict.fromkeys(re.findall(r"name: (\w+),", KINDS), word) | {"passed": "kept"}
    service.start("--accept")
    service.send_all(timed_records(1))
    later = service.events[len(before) :]
    first = alone(service, tmp_path / "before", old, before)
    if word == "emptied":
        second = alone(service, tmp_path / "later", new, later)
    else:
        given = alone(service, tmp_path / "given", new, before)
        whole = alone(service, tmp_path / "whole", new, service.events)
        second = {place: some[len(given.get(place, ())) :] for place, some in whole.items()}
    service.await_outputs(expected=joined(first, second))
    service.end()


BY_BUYER = """
  - name: buyers
    aggregate: in
    window: tumbling, count(4), partitioned
    partition_by: [buyer]
    output: {buyers: {k: Last(buyer), all: Collect(v)}}
"""


@pytest.mark.slow
def test_an_operator_with_another_key_comes_and_goes(services: Callable[..., Service], tmp_path: Path):
    """It is a stage of its own, which reads its input from the first record on. The other goes on where it was."""

    def with_buyers(*operators: str, streams: list[str]) -> str:
        return text_of(*operators, streams=streams).replace("v: int64}", "v: int64, buyer: string}")

    def send(number: int) -> None:
        service.send_all([(to, record | {"buyer": f"buyer {record['v'] % 5}"}) for to, record in records(number)])

    sums, both = with_buyers(SUMS, streams=["sums"]), with_buyers(SUMS, BY_BUYER, streams=["sums", "buyers"])
    service = services(sums)
    service.create("in", partitions=1)
    service.start()
    send(0)
    service.await_rest()
    service.end()
    changed(service, both)
    assert upgrade(service).returncode == 0
    service.start()
    send(1)
    buyers = alone(service, tmp_path / "buyers", with_buyers(BY_BUYER, streams=["buyers"]), service.events)
    service.await_outputs(expected=joined(alone(service, tmp_path / "sums", sums, service.events), buyers))
    service.end()
    changed(service, sums)
    assert upgrade(service).returncode == 7
    for number, options in ((2, ["--accept"]), (3, [])):
        service.start(*options)
        send(number)
        service.await_outputs(expected=joined(alone(service, tmp_path / f"{number}", sums, service.events), buyers))
        service.end()


@pytest.mark.slow
def test_records_of_an_earlier_form_are_a_loss_of_what_is_rebuilt(services: Callable[..., Service], tmp_path: Path):
    """The earlier records lack an attribute. They are read again in vain, and `upgrade` says so."""
    wide = text_of(PAIRS, streams=["pairs"]).replace("v: int64}", "v: int64, w: int64}").replace("SIZE", "4")
    service = services(text_of(PAIRS.replace("SIZE", "9"), streams=["pairs"]))
    stop_before_the_change(service, "rest")
    before = list(service.events)
    given = service.expected()
    changed(service, wide)
    shown = upgrade(service)
    assert shown.returncode == 7, shown
    assert "that do not have the new form are missing" in shown.stdout
    service.start("--accept")
    service.send_all([(stream, record | {"w": 1}) for stream, record in records(1)])
    later = service.events[len(before) :]
    service.await_outputs(expected=joined(given, alone(service, tmp_path / "later", wide, later)))
    service.end()


def delete_records(service: Service, stream: str, before: Mapping[tuple[str, int], int]) -> None:
    """Kafka has no records before these offsets any more."""
    admin = AdminClient({"bootstrap.servers": service.kafka["bootstrap.servers"]})
    places = [TopicPartition(service.topic(stream), number, offset) for (_, number), offset in before.items()]
    for answer in admin.delete_records(places).values():
        answer.result()
