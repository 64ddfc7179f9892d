"""Each row of "Several writers" in docs/exactly-once.md that needs no cluster (fault_rows.py).

The simulation, a part of which runs in `make test`, takes the same steps; starts that find other files, buckets or
topics take twenty seconds each and run in `make test-recovery`.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import IsolationLevel

from sluice.kafka import ledger
from sluice.kafka.batch_report import Entry
from tests.recovery.harness.output_reader import shown
from tests.recovery.harness.service import Service
from tests.recovery.harness.shared_service import Shared, created
from tests.recovery.harness.sums_and_runs import FILE, OUTPUTS, tuples
from tests.unit.kafka.broker_tools import add_topic_partitions, visible

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

#: seconds of a commit that counts as slow (TimeLimits.slow_commit)
SLOW_S = 4.0
PARTED = f"{FILE}direct_records: 20\nwriters: buckets\n"


@pytest.fixture(scope="module")
def shared(services) -> Shared:
    return Shared(lambda: created(services(PARTED)))


@pytest.fixture
def service(shared) -> Service:
    """It runs and rests, and 300 tuples went through it."""
    return shared.at_rest()


def paused(service: Service, moment: str) -> None:
    """A batch is in hand, and the first process that comes to this moment stands still."""
    service.at(moment)
    service.send("in", tuples(300))
    service.await_moment(moment)


def parts(service: Service) -> list[int]:
    """The next batch by the ledger of each bucket, and by that of the driver."""
    found = [ledger.part_position(service.kafka, ledger.part_of(service.name, n)) for n in (0, 1)]
    return [*(0 if one is None else one.next_batch for one in found), service.position().next_batch]


def written(service: Service) -> int:
    """The number of records that the driver's entries in the ledger have counted."""
    messages = [one for one in visible(service.kafka, ledger.TOPIC) if one.key() == service.name.encode()]
    reports = [Entry.from_json(one.value()).report for one in messages]
    return sum(sum(counts.values()) for report in reports for counts in report.written.values())


def restarted(service: Service) -> None:
    """All that was sent comes out once."""
    service.start()
    service.await_outputs()


def test_the_buckets_write_all_outputs(service):
    service.await_outputs()
    assert len(set(parts(service))) == 1
    assert service.records(*OUTPUTS) == written(service), "the driver's entries count what the buckets have written"


def test_p01_killed_before_a_part_is_committed(service):
    visible = service.count(*OUTPUTS)
    paused(service, "produced")
    service.kill()
    assert service.count(*OUTPUTS, isolation=IsolationLevel.READ_UNCOMMITTED) > visible, "a transaction is open"
    restarted(service)


def test_p02_a_state_server_is_killed_while_it_produces(service):
    paused(service, "produced")
    service.signal("state", signal.SIGKILL)
    service.await_outputs()


def test_p03_killed_between_the_commits_of_two_writers(service):
    """One bucket stands still when its part is written, and the other one has not begun: it stands still before."""
    before = in_parts(service, "part-written")
    service.kill()
    restarted(service)
    assert min(parts(service)) > before[2]


def test_p11_a_start_finds_some_parts_of_a_batch(service):
    batch = in_parts(service, "written")[2]
    service.kill()
    command = [sys.executable, "-m", "sluice", "replay", str(service.file), "--checkpoint"]
    compared = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"some buckets have written batch {batch}, and others have not: start the service" in compared.stderr
    service.start()
    service.await_log("is in parts, and runs again")
    service.await_outputs()


def one_of_two(service: Service, moment: str) -> None:
    """A batch of which one bucket has written its part and is at this moment, and the other one has not begun."""
    service.at("part")  # the first of the two
    service.at(moment)
    service.send("in", tuples(300))
    service.await_moment("part")
    service.await_moment(moment)


def in_parts(service: Service, moment: str) -> list[int]:
    """A batch of which one bucket has written its part; the positions then."""
    one_of_two(service, moment)
    before = parts(service)
    assert len(set(before[:2])) == 2, "the batch is in parts"
    assert before[2] == min(before[:2])
    return before


@pytest.mark.parametrize("moment", ["committing", "committed"])
def test_p07_the_commit_of_a_part_is_on_its_way(service, moment):
    service.at(moment, "signal")
    service.send("in", tuples(300))
    service.await_moment(moment)
    service.kill()
    restarted(service)


def test_p04_a_state_server_is_killed_after_the_commit_of_its_part(service):
    paused(service, "part-written")
    service.signal("state", signal.SIGKILL)
    service.await_outputs()


def test_p08_a_commit_that_was_slow(service):
    """It may arrive twice: the next part has a new producer."""
    paused(service, "committing")
    time.sleep(SLOW_S)
    service.go_on("committing")
    service.await_outputs()
    service.await_log("is written; the next one gets a new producer: the commit took")
    service.send("in", tuples(300))
    service.await_outputs()


def test_p05_killed_when_all_parts_are_in(service):
    paused(service, "closing")
    before = parts(service)
    service.kill()
    assert before[0] == before[1] == before[2] + 1
    restarted(service)


def test_p06_killed_after_the_close(service):
    paused(service, "closed")
    service.kill()
    restarted(service)


def test_p13_the_checkpoint_is_lost_while_a_batch_is_in_parts(service):
    paused(service, "closing")
    service.lose_machine()
    restarted(service)


@pytest.mark.slow
def test_p12_a_copy_of_the_checkpoint_takes_over_a_batch_in_parts(services, tmp_path):
    """The copy has planned another batch of the same number, or none."""
    one = created(services(PARTED))
    one.start()
    one.send("in", tuples(300))
    one.await_rest()
    folder = Path(shutil.copytree(one.checkpoint, tmp_path / "other"))
    other = services(PARTED, name=one.name, checkpoint=folder)
    other.adopt(one)
    paused(one, "closing")
    other.start()
    other.await_log("is in parts, with the plan that the ledger has")
    other.await_rest()  # the outputs are there before that: the first instance has written both parts
    one.go_on("closing")
    assert one.await_end() == 5
    other.await_outputs()
    other.end()


@pytest.mark.slow
def test_p16_one_writer_after_a_batch_in_parts(service):
    paused(service, "closing")
    service.kill()
    service.text = service.text.replace("writers: buckets", "writers: one")
    service.write_file()
    restarted(service)
    service.end()
    service.send("in", tuples(300))
    restarted(service)
    service.text = service.text.replace("writers: one", "writers: buckets")
    service.write_file()
    service.end()
    service.send("in", tuples(300))
    restarted(service)


@pytest.mark.slow
def test_p14_the_first_batch_is_in_parts_and_the_checkpoint_is_lost(services):
    service = created(services(PARTED))
    service.at("closing")
    service.send("in", tuples(300))
    service.start()
    service.await_moment("closing")
    service.lose_machine()
    restarted(service)


@pytest.mark.slow
def test_p15_the_number_of_buckets_is_changed_while_a_batch_is_in_parts(service):
    paused(service, "closing")
    service.kill()
    service.text += "buckets: 1\n"
    service.write_file()
    service.start()
    service.await_outputs()
    service.send("in", tuples(300))
    service.await_outputs()
    assert "then the query starts again with 1 buckets" in service.log()
    service.end()
    service.text = service.text.replace("buckets: 1\n", "")
    service.write_file()


@pytest.mark.slow
def test_p15_so_is_the_number_that_the_lost_checkpoint_had(services):
    """The last closed batch had one bucket; the batch in parts has two, of which one has written."""
    service = created(services(f"{PARTED}buckets: 1\n"))
    service.send("in", tuples(300))
    restarted(service)
    service.end()
    service.text = service.text.replace("buckets: 1", "buckets: 2")
    service.write_file()
    service.start()
    one_of_two(service, "part-written")
    service.lose_machine()
    restarted(service)


@pytest.mark.parametrize(
    ("before", "now"),
    [pytest.param(2, 3, id="to the driver", marks=pytest.mark.slow), pytest.param(3, 4, id="from the driver")],
)
def test_p21_an_output_gets_topic_partitions_while_a_batch_is_in_parts(services, before, now):
    """With two buckets, they write a topic with two or four topic partitions, and the driver one with three."""
    service = created(services(PARTED.replace("sums: {marks: none}", f"sums: {{marks: none, partitions: {before}}}")))
    service.start()
    service.send("in", tuples(300))
    service.await_rest()
    one_of_two(service, "part-written")
    service.kill()
    add_topic_partitions(service.kafka, service.topic("sums"), now)
    service.start()
    service.await_log("then the query starts again with the present topic partitions")
    service.await_rest()
    rows = [shown(message) for place in range(now) for message in service.messages("sums", place)]
    wanted = [row for place, some in service.expected().items() if place[0] == "sums" for row in some]
    assert sorted(map(str, rows)) == sorted(map(str, wanted))
    service.end()


@pytest.mark.slow
def test_p17_the_file_is_changed_while_a_batch_is_in_parts(service):
    paused(service, "closing")
    service.kill()
    before = service.text
    service.text = before.replace("count(20)", "count(21)")
    service.write_file()
    service.start("--accept")
    assert service.await_end() == 4
    assert "Start once with the file as it was" in service.sentence
    service.text = before
    service.write_file()
    restarted(service)


@pytest.mark.slow
def test_p17_a_changed_file_beside_an_instance_whose_bucket_is_about_to_write(services, tmp_path):
    """The start that converts the checkpoint also fences the bucket, which would write its part of the same batch."""
    one = created(services(f"{PARTED}buckets: 1\n"))
    one.start()
    one.send("in", tuples(300))
    one.await_rest()
    folder = Path(shutil.copytree(one.checkpoint, tmp_path / "other"))
    other = services(one.text.replace("count(7)", "count(8)"), name=one.name, checkpoint=folder)
    other.adopt(one)
    paused(one, "part")
    other.at("converting")
    other.start("--accept")
    other.await_moment("converting")
    one.go_on("part")
    assert one.await_end() == 5
    other.go_on("converting")
    kept = {place: rows for place, rows in one.expected().items() if place[0] == "sums"}
    other.await_outputs(expected=kept)
    other.end()


@pytest.mark.slow
def test_p18_the_ledger_is_reset(service):
    service.await_outputs()
    service.end()
    shutil.rmtree(service.checkpoint)
    before = service.count(*OUTPUTS)
    service.start("--reset-ledger")
    service.wait_until(lambda: service.count(*OUTPUTS) > before, "all is written again")
    service.end()
    service.clean_up()


@pytest.mark.slow
def test_p19_a_record_is_larger_than_its_topic_takes(services):
    """It is a dead letter once, also where its part is found by another start, and the others come out."""
    service = services("""
max_records_per_batch: 100
clock: records
writers: buckets
streams:
  in: {schema: {k: string, v: int64, size: int64, text: string}}
  out: {marks: none}
  dead: {}
operators:
  - name: copies
    aggregate: in
    window: sliding, count(1), count(1), partitioned
    partition_by: [k]
    output: {out: {k: k, v: Last(v), text: Last(text)}}
dead_letters: dead
""")
    service.create("in")
    service.create("out", **{"max.message.bytes": "2000"})
    made = [{"k": f"key {n % 7}", "v": n, "size": (3000 if n % 19 == 0 else 10)} for n in range(200)]
    service.at("part-written")
    service.start()
    service.send("in", [one | {"text": "x" * one["size"]} for one in made])
    service.await_moment("part-written")
    service.kill()
    service.start()
    small = [one["v"] for one in made if one["size"] == 10]
    service.wait_until(lambda: service.records("out") >= len(small), "the small ones are there")
    service.await_rest()
    found = [one["tuple"]["v"] for place in (0, 1) for one in service.outputs("out").get(("out", place), ())]
    assert sorted(found) == small
    assert service.records("dead") == len(made) - len(small)
    assert written(service) == len(small)
    service.end()
