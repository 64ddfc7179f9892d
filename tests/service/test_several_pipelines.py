"""Several pipelines in one service: each is right, fails and starts again by itself, and follows its file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.service.several_pipelines import Several, sums_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

NUMBERS = count()


@pytest.fixture
def several(broker: str, tmp_path: Path) -> Iterator[Several]:
    one = Several(broker, tmp_path, f"several-{next(NUMBERS)}")
    for short in ("a", "b"):
        one.create(short)
        one.write(short)
    yield one
    one.kill()


def await_sums(several: Several, short: str, numbers: range) -> None:
    several.wait_for(lambda: len(several.sums(short)) >= len(numbers) // Several.SIZE)
    assert several.sums(short) == sums_of(numbers)


def await_some(several: Several, short: str, some: int) -> None:
    """Waits for more than some sums. The kill after that may come at any moment of a batch."""
    several.wait_for(lambda: len(several.sums(short)) > some)


def test_a_folder_is_followed_while_it_changes_and_no_pipeline_disturbs_another(several):
    several.start()
    several.wait_for(lambda: several.asked()[0] == 200)
    several.send("a", range(10))
    several.send("b", range(100, 110))
    await_sums(several, "a", range(10))
    await_sums(several, "b", range(100, 110))
    assert several.metric("sluice_records_read_total", "a") == several.metric("sluice_records_read_total", "b") == 10
    listed = several.asked("/api/pipelines")[1]["pipelines"]
    assert [(one["name"], one["state"]) for one in listed] == [(several.name(short), "running") for short in "ab"]
    for short in "ab":
        several.wait_for(lambda short=short: len(several.page(short)["stages"][0]["buckets"]) == 1)

    several.create("c")
    several.write("c")
    several.wait_for(lambda: several.state("c") == "running")
    several.send("c", range(6))
    await_sums(several, "c", range(6))

    several.file("b").write_text("pipeline: [")
    several.wait_for(lambda: bool(several.asked()[1]["wrong_files"]))
    assert several.asked()[0] == 200, "the last right version of b runs"
    several.send("b", range(110, 120))
    await_sums(several, "b", range(100, 120))

    several.write("b", operator="total")
    several.wait_for(lambda: several.state("b") == "failed")
    assert "state would be lost (sum removed)" in several.status("b")["error"]
    code, said = several.asked()
    assert (code, said["healthy"], several.asked("/healthz")[0]) == (503, True, 200)
    several.send("a", range(10, 20))
    await_sums(several, "a", range(20))

    several.write("b")
    several.wait_for(lambda: several.state("b") == "running")
    several.send("b", range(120, 130))
    await_sums(several, "b", range(100, 130))

    several.file("a").unlink()
    several.wait_for(lambda: not several.status("a"))
    several.send("a", range(20, 30))
    several.send("c", range(6, 12))
    await_sums(several, "c", range(12))
    assert several.sums("a") == sums_of(range(20))
    several.write("a")
    await_sums(several, "a", range(30))

    code, seconds = several.terminated()
    assert (code, seconds < 11) == (0, True), several.log()


MODULE = """
import numpy as np

class Sum:
    signature = "int64 -> int64"

    def results(self, offsets, values):
        return np.add.reduceat(values.to_numpy(), offsets[:-1]) + {more}
"""


def test_a_changed_module_is_used_between_two_batches(several):
    """FN15: by the pipelines that use it, and by no other one."""
    module = several.folder / "summing.py"
    module.write_text(MODULE.format(more=0))
    window = {"name": "sum", "aggregate": "in", "window": "tumbling, count(2)"}
    several.write("a", operators=[window | {"output": {"out": {"sum": 'Custom("summing:Sum", number)'}}}])
    several.start()
    several.wait_for(lambda: several.state("a") == several.state("b") == "running")
    several.send("a", range(9))
    several.wait_for(lambda: len(several.sums("a")) >= 4)
    module.write_text(MODULE.format(more=1000))
    several.wait_for(lambda: "a module of its classes was changed" in several.log())
    several.wait_for(lambda: several.state("a") == "running")
    several.send("a", range(9, 12))
    several.wait_for(lambda: len(several.sums("a")) >= 6)
    assert several.sums("a") == [1, 5, 9, 13, 1017, 1021]
    assert several.status("b")["starts"] == 1
    several.terminated()


def test_a_pipeline_whose_input_topic_is_deleted_fails_alone_and_comes_back(several):
    several.start()
    for short in "ab":
        several.send(short, range(4))
        await_sums(several, short, range(4))
    several.delete("b")
    several.wait_for(lambda: several.status("b").get("starts", 0) > 1 and several.state("b") == "waiting")
    several.send("a", range(4, 8))
    await_sums(several, "a", range(8))
    assert several.metric("sluice_pipeline_restarts_total", "b") >= 1
    assert several.metric("sluice_pipeline_restarts_total", "a") == 0
    assert several.asked("/healthz")[0] == 200
    several.create("b")
    several.write("b", on_data_loss="continue")
    several.wait_for(lambda: several.state("b") == "running")
    several.send("b", range(4, 8))
    await_sums(several, "b", range(8))
    assert several.status("a")["starts"] == 1


def test_a_damaged_checkpoint_stops_its_own_pipeline_until_it_is_repaired(several):
    several.start()
    for short in "ab":
        several.send(short, range(4))
        await_sums(several, short, range(4))
    several.terminated()
    identity = several.checkpoint("b") / "sluice.json"
    right = identity.read_bytes()
    identity.write_bytes(right.replace(b'"buckets": 1', b'"buckets": 3'))
    several.start()
    several.wait_for(lambda: several.state("a") == "running" and several.state("b") == "waiting")
    assert "sluice.json is damaged" in several.status("b")["error"]
    for short in "ab":
        several.send(short, range(4, 8))
    await_sums(several, "a", range(8))
    assert several.sums("b") == sums_of(range(4))
    identity.write_bytes(right)
    await_sums(several, "b", range(8))


def test_every_record_counts_once_across_kills_of_the_whole_service(several):
    several.write(
        "b", direct_records=1000
    )  # batches of a are jobs of Spark, those of b are done in the service's process
    rounds = [range(start, start + 40) for start in range(0, 600, 40)]
    for killed_in, sent in enumerate(rounds):
        if killed_in % 5 == 0:
            several.kill()
            several.start()
            several.wait_for(lambda: several.state("a") == several.state("b") == "running")
        for short in "ab":
            several.send(short, sent)
        await_some(several, "ab"[killed_in % 2], sent.stop // 4)
    several.kill()
    several.start()
    for short in "ab":
        await_sums(several, short, range(rounds[-1].stop))


def test_files_that_are_final_end_the_service(several):
    for short in "ab":
        several.send(short, range(4), final=True)
    several.start(str(several.file("a")), str(several.file("b")), "--until-final")
    assert several.exit_code() == 0, several.log()
    for short in "ab":
        assert several.sums(short) == sums_of(range(4))


def test_the_exit_code_of_files_is_that_of_the_first_failure_when_nothing_is_left_to_run(several):
    several.send("a", range(4), final=True)
    several.delete("b")
    several.start(str(several.file("a")), str(several.file("b")), "--until-final", "--restart", "never")
    assert several.exit_code() == 3, several.log()
    assert several.sums("a") == sums_of(range(4)), "the other one went on to its end"
    assert f"{several.name('b')}.in" in several.log().splitlines()[-1]
