"""A service is stopped or killed, its file gets another number of buckets, and it goes on; some changes are killed too.

The outputs equal those of `replay` of the same records, each once. SLUICE_TEST_SEED and SLUICE_TEST_LOSSES choose other
numbers and moments, and more changes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import yaml

from tests.recovery.harness.output_reader import Record
from tests.recovery.harness.service import Service
from tests.recovery.test_lost_disks import CASES, MOMENTS, SEED, Case, in_folder, kill_the_restore, records

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

#: where a change is when it is killed: nothing is replaced yet, and all is written and nothing is moved
IN_A_CHANGE = ("restoring", "restored")
MOST_BUCKETS = 6


def changed(name: str, *replaced: tuple[str, str]) -> Case:
    case = CASES[name]
    for before, after in replaced:
        assert before in case.text
        case = case._replace(text=case.text.replace(before, after))
    return case


def with_marks(name: str) -> Case:
    """Watermarks that are computed from the tuples of all keys need one bucket, so here they are marks in the topics,
    in place of two of ten tuples.
    """
    case = changed(name, (", lag: 0.02, minimum_gap: 0.01", ""))
    return case._replace(record=lambda n: watermark(*case.record(n)) if n % 10 >= 8 else case.record(n))


def watermark(stream: str, record: Record) -> tuple[str, Record]:
    at = datetime.fromisoformat(record["t"]) - timedelta(milliseconds=20)
    return stream, {"watermark": at.isoformat()}


#: pipelines that may have several buckets; slidingTime may not (T1). The windows of the join are of time, because with
#: windows of a count it must be in one bucket
SPREAD = {name: case for name, case in CASES.items() if name != "slidingTime"} | {
    **{name: with_marks(name) for name in ("timeInterval", "session", "as-of join")},
    "join": changed("join", ("sliding, count(20)", "sliding, time(0.05)")),
    "early": changed("tumbling count", ("partition_by: [k]", "partition_by: [k]\n    early: count(2)")),
}


def with_buckets(service: Service, number: int) -> None:
    """The next start has this number of buckets."""
    service.text = yaml.safe_dump(yaml.safe_load(service.text) | {"buckets": number}, sort_keys=False)
    service.write_file()


@pytest.mark.slow
@pytest.mark.parametrize("name", SPREAD)
def test_a_service_goes_on_with_another_number_of_buckets(services, name):
    goes_on(services, name, "")


@pytest.mark.slow
def test_a_checkpoint_that_is_lost_right_after_the_change_is_restored(services, tmp_path):
    """The snapshots of the new buckets are in the store before the change is complete."""
    service = goes_on(services, "sliding count", in_folder(tmp_path), lost=True)
    numbers = {path.parts[-3] for path in (tmp_path / "snapshots").rglob("*.state")}
    assert numbers == {str(service.pipeline.settings.buckets)}


def goes_on(services: Callable[..., Service], name: str, settings: str, *, lost: bool = False) -> Service:
    case, chance = SPREAD[name], random.Random(f"{SEED} {name} rescaled")
    service = services(settings + case.text)
    service.create(*case.inputs, partitions=1)
    service.send_all(case.before)
    *parts, last = records(case)
    number = 2
    for some in parts:
        service.start()
        end_with(service, chance.choice(("rest", *MOMENTS)), some)
        number = chance.choice([n for n in range(1, MOST_BUCKETS + 1) if n != number])
        with_buckets(service, number)
        if chance.random() < 0.5:
            kill_the_restore(service, chance.choice(IN_A_CHANGE))
        if lost:
            service.start()
            service.await_rest()
            service.lose_machine()
    service.start()
    service.send_all(last)
    service.await_outputs()
    service.end()
    assert f"it gets {number} buckets" in service.whole_log()
    folders = {path.name for path in Path(service.checkpoint).glob("**/buckets/*")}
    assert folders <= {str(one) for one in range(number)}
    return service


def end_with(service: Service, moment: str, some: list) -> None:
    """Sends the records, and ends the service in order (at rest) or kills it at the moment, in a later batch."""
    half = len(some) // 2
    service.send_all(some[:half])
    service.await_rest()
    if moment == "rest":
        service.send_all(some[half:])
        service.await_rest()
        service.end()
        return
    service.at(moment)
    service.send_all(some[half:])
    service.await_moment(moment)
    service.kill()
