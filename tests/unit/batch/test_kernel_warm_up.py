"""Which kernels a pipeline needs."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from sluice.batch import kernel_warm_up
from sluice.batch.kernel_warm_up import everything, from_text, in_processes, in_this_process, of_pipeline, to_text
from sluice.config.load import load, load_text
from sluice.engine import operator_warm_up
from sluice.processes import processors

EXAMPLES = sorted(Path("examples").glob("*.yaml"))

CUSTOM = """
pipeline: own
streams:
  in: {topic: in, schema: {x: int64, v: float64}, format: csv}
  out: {topic: out, format: csv}
  handled: {topic: handled, schema: {what: string, all: list<int64>}}
operators:
  - name: sums
    aggregate: in
    window: tumbling, count(2)
    output: {out: {sum: Sum(v), own: "Custom('tests.spec.custom_classes:Range', v)"}}
  - name: handler
    custom: in
    window: tumbling, count(2)
    handler: tests.spec.handler_classes:Events
    output: [handled]
"""


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_pipeline_travels_as_text_without_the_properties_of_its_clients(path):
    pipeline = load(path, environment=None)
    (found,) = from_text(to_text([pipeline]))
    assert (found.streams, found.operators) == (pipeline.streams, pipeline.operators)
    assert not found.settings.kafka


@pytest.mark.parametrize("text", ["", "!", "AAAA", "eJwDAAAAAAE="])
def test_a_text_that_is_no_pipeline_names_none(text):
    assert from_text(text) == ()


def test_a_pipeline_that_is_too_long_for_the_environment_is_left_out(monkeypatch):
    monkeypatch.setattr(kernel_warm_up, "MAX_BYTES", 10)
    assert to_text([load(EXAMPLES[0], environment=None)]) == ""


def test_of_several_pipelines_the_last_ones_are_left_out(monkeypatch):
    one, two, three = (load(path, environment=None) for path in EXAMPLES[:3])
    assert [found.name for found in from_text(to_text([one, two, three]))] == [one.name, two.name, three.name]
    monkeypatch.setattr(kernel_warm_up, "MAX_BYTES", len(to_text([one, two])))
    assert [found.name for found in from_text(to_text([one, two, three]))] == [one.name, two.name]


def names(parts) -> list[str]:
    """Of the parts that not every pipeline has."""
    partial_calls = [part for part in parts if isinstance(part, partial)]
    return [call.args[0].name if call.func is operator_warm_up.feed else call.func.__name__ for call in partial_calls]


def test_each_operator_and_each_format_is_a_part():
    assert names(of_pipeline(load("examples/flights.yaml", environment=None))) == ["delay", "day", "json"]
    assert len(everything()) > len(operator_warm_up.OPERATORS)


def test_after_everything_no_conformance_case_compiles_a_kernel():
    assert kernels_of_cases() == []


def test_after_the_parts_of_a_pipeline_its_first_batches_compile_no_kernel():
    """Each state server is a process of its own, so each one would load what is missing: 7 MB of memory."""
    names = ["fn-min-max-of-strings", "generated-sliding-count-time-partitioned-seed-30184"]
    assert kernels_of_cases(*names) == []


def kernels_of_cases(*names) -> list[str]:
    command = [sys.executable, "-m", "tests.unit.batch.kernels_of_cases", *names]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_no_part_needs_polars_which_only_an_extra_brings(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    monkeypatch.delitem(sys.modules, "sluice.wire.json.json_write", raising=False)
    for part in everything()[len(operator_warm_up.OPERATORS) :]:
        part()
    assert "sluice.wire.json.json_write" not in sys.modules


def test_no_code_of_the_user_runs():
    parts = of_pipeline(load_text(CUSTOM, "own"))
    assert names(parts) == ["sums", "json"]
    (output,) = parts[0].args[0].outputs
    assert [name for name, _ in output.attributes] == ["sum"]


def test_parts_are_counted_as_they_are_compiled_in_other_processes():
    assert list(in_processes([kernel_warm_up.keys] * 2)) == [1, 2]


def test_processes_end_after_some_parts_and_others_go_on(monkeypatch):
    monkeypatch.setattr(kernel_warm_up, "MAX_PARTS", 1)
    count = 2 * processors() + 1
    assert list(in_processes([os.getpid] * count)) == [*range(1, count + 1)]


def test_a_part_that_fails_leaves_its_kernels_to_their_first_use(caplog):
    done = []
    with caplog.at_level(logging.DEBUG, logger="sluice"):
        in_this_process([lambda: 1 / 0, lambda: done.append(1)])
    assert done == [1]
    assert "could not be compiled in advance" in caplog.text
