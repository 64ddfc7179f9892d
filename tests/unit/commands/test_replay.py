"""`sluice replay` as a user calls it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from sluice.checkpoint import checkpoint_folder
from sluice.commands.replay import repeat_batches
from sluice.config.load import load_text
from sluice.files import project_file
from sluice.inspect import verify
from sluice.inspect.verify import ComparisonReport, Difference

ENVIRONMENT = {"PYTHONPATH": str(project_file("service")), "PYTHONWARNINGS": "error"}
PIPELINE = """
pipeline: pairs
streams:
  numbers: {topic: numbers, schema: {x: int64, f: float64}}
  pairs: {topic: pairs}
operators:
  - {name: pair, aggregate: numbers, window: "tumbling, count(2)", output: {pairs: {n: Count(), x: Sum(x), f: Sum(f)}}}
"""
HOURLY = """
pipeline: hours
streams:
  numbers: {topic: numbers, schema: {t: timestamp}, event_time: t}
  pairs: {topic: pairs}
operators:
  - {name: hourly, aggregate: numbers, window: "timeInterval, intervalDuration(1h)", output: {pairs: {n: Count()}}}
"""
EVENTS = """{"at": 0, "tuple": {"x": 1, "f": 1}}
{"at": 1.5, "tuple": {"x": 2, "f": 2.0}}
{"at": 2, "punct": "final"}
"""
PRINTED = """{"after":1,"stream":"pairs","tuple":{"n":2,"x":3,"f":3.0}}
{"after":1,"stream":"pairs","punct":"window"}
{"after":2,"stream":"pairs","punct":"final"}
"""

SUMMARY = "sluice: in: 2 tuples of numbers; out: 1 tuple and 1 mark of pairs\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pairs.yaml").write_text(PIPELINE)
    (tmp_path / "events.jsonl").write_text(EVENTS)
    return tmp_path


def sluice(
    folder: Path, *arguments: str, stdin: str = "", python: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """A replay. What it reports about kernels that it compiles is left out of standard error."""
    done = subprocess.run(
        [sys.executable, *python, "-m", "sluice", "replay", *arguments], cwd=folder, env=ENVIRONMENT, input=stdin,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "--quiet" not in arguments:
        done.stderr = re.sub(r"sluice: (compiling kernels|compiled \d+|\d+) [^\n]*\n", "", done.stderr)
    return done


def test_prints_one_json_object_per_line(folder: Path):
    done = sluice(folder, "pairs.yaml", "events.jsonl")
    assert (done.returncode, done.stdout, done.stderr) == (0, PRINTED, SUMMARY)


def test_a_trace_stands_in_front_of_the_outputs(folder: Path):
    done = sluice(folder, "pairs.yaml", "events.jsonl", "--trace")
    assert done.stderr == SUMMARY
    lines = done.stdout.splitlines()
    happened = [line for line in lines if '"window_event"' in line]
    assert lines == [*happened, *PRINTED.splitlines()]
    assert happened[0] == ('{"after":0,"operator":"pair","window_event":"before_insertion","tuple":{"x":1,"f":1.0}}')
    assert happened[-1] == (
        '{"after":1,"operator":"pair","window_event":"trigger","content":[{"x":1,"f":1.0},{"x":2,"f":2.0}]}'
    )


def test_quiet_replay_has_no_summary(folder: Path):
    done = sluice(folder, "pairs.yaml", "events.jsonl", "--quiet")
    assert (done.stdout, done.stderr) == (PRINTED, "")


def test_the_summary_says_why_a_window_never_fired(folder: Path):
    (folder / "pairs.yaml").write_text(HOURLY)
    events = [f'{{"at": {second}, "tuple": {{"t": {second}}}}}\n' for second in range(300)]
    done = sluice(folder, "pairs.yaml", "-", stdin="".join(events))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [
        "sluice: in: 300 tuples of numbers; out: 0 tuples of pairs",
        "sluice: hourly never fired: no watermark came (numbers has no lag); it still holds 300 tuples",
    ]


def test_reads_standard_input(folder: Path):
    assert sluice(folder, "pairs.yaml", "-", "--batch", "1", stdin=EVENTS).stdout == PRINTED


def test_a_wrong_event_ends_it_with_a_message(folder: Path):
    done = sluice(folder, "pairs.yaml", "-", stdin=EVENTS + "{}\n")
    assert (done.returncode, done.stderr) == (
        1,
        'sluice: <stdin>:4: `at` is missing: expected seconds, or an ISO 8601 time such as "2026-01-01T10:00:00Z"\n',
    )


def test_a_wrong_pipeline_ends_it_with_its_problems(folder: Path):
    (folder / "pairs.yaml").write_text(PIPELINE.replace("count(2)", "count(-2)"))
    done = sluice(folder, "pairs.yaml", "events.jsonl")
    assert done.returncode == 1
    assert "pairs.yaml:7: operators[0].window" in done.stderr


def test_a_missing_file(folder: Path):
    done = sluice(folder, "pairs.yaml", "other.jsonl")
    assert done.returncode == 2
    assert "'other.jsonl' does not exist" in done.stderr


def test_a_reader_that_goes_away_is_no_fault(folder: Path):
    (folder / "events.jsonl").write_text('{"at": 0, "tuple": {"x": 1, "f": 1}}\n' * 100_000)
    command = [sys.executable, "-m", "sluice", "replay", "pairs.yaml", "events.jsonl"]
    with subprocess.Popen(
        command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:  # fmt: skip
        assert program.stdout is not None
        assert program.stderr is not None
        assert b"pairs" in program.stdout.readline()
        program.stdout.close()
        assert program.stderr.read() == b""


def test_loads_nothing_that_takes_long(folder: Path):
    """It starts within a second on an idle machine; here, what would prevent that."""
    done = sluice(folder, "pairs.yaml", "events.jsonl", python=["-X", "importtime"])
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "sluice.replayer.player" in loaded
    assert not loaded & {"pyspark", "pandas.core", "polars", "confluent_kafka", "rich", "hypothesis"}


@pytest.mark.parametrize("differing", ["", "first", "second", "first second"])
def test_a_difference_in_any_stage_is_an_exit_code_of_1(
    differing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    difference = Difference(3, "out", 0, 7, {"value": "1"}, {"value": "2"})

    def compared(stage: str) -> ComparisonReport:
        return ComparisonReport(stage, 1, 3, 9, [difference] if stage in differing.split() else [])

    monkeypatch.setattr(checkpoint_folder, "placed_stages", lambda _: ["first", "second"])
    monkeypatch.setattr(verify, "verify", compared)
    code = repeat_batches(load_text(PIPELINE, "pairs.yaml", environment=None))
    printed = capsys.readouterr()
    assert code == (1 if differing else 0)
    assert printed.out.count('"offset":7') == len(differing.split())
    assert [line.partition(":")[0] for line in printed.err.splitlines()] == ["first", "second"]
