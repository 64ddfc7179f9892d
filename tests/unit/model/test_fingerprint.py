import subprocess
import sys

import pytest

from sluice.model.fingerprint import fingerprint
from tests.unit.config.pipeline_files import aggregate, loaded

BASE = aggregate("sliding, count(5), count(2)", "{n: Count(), x: Sum(size)}")


def print_of(text):
    return fingerprint(loaded(text))


SAME = {
    "kafka": BASE + "kafka: {bootstrap.servers: there}",
    "where and how it runs": BASE
    + "checkpoint: /data\ntrigger_interval: 5\nmax_records_per_batch: 9\nmax_bytes_per_batch: 9\n"
    "start: latest\ndelivery: at_least_once",
    "how often batches start": BASE + "latency: cheap",
    "layout": BASE.replace("{n: Count(), x: Sum(size)}", "{'n':  Count( ), 'x': Sum( size )}"),
    "a default that is written": BASE + "clock: processing",
    "a default of an operator that is written": BASE.replace(
        "count(2)", "count(2)\n    aggregate_incomplete_windows: true"
    ),
    "marks as the plan chooses them": BASE.replace("topic: out", "topic: out, marks: header"),
    "topic partitions to create": BASE.replace("topic: out", "topic: out, partitions: 5"),
}

FORMATS = """
pipeline: p
kafka: {bootstrap.servers: "b:1"}
registry: {url: "http://r"}
streams:
  in:
    topic: in
    format: csv
    delimiter: ";"
    schema: {k: string, v: int64}
    key: {attributes: [k], format: avro-confluent}
  b: {topic: b, format: avro, avro_schema: {type: record, name: A, fields: [{name: k, type: string}]}}
  out: {topic: out, format: avro-confluent}
  rows: {topic: rows, format: csv}
operators:
  - {name: one, map: in, output: {out: {k: k, v: v}}}
  - {name: two, map: b, output: {rows: {k: k}}}
"""


def test_the_options_of_formats_keep_their_fingerprint_from_version_to_version():
    """A change of this value refuses the checkpoints of running services."""
    assert print_of(FORMATS) == "398d8d86781c6ff5a1272fa583a8ccb1"
    assert print_of(FORMATS.replace('delimiter: ";"', 'delimiter: "|"')) != print_of(FORMATS)
    assert print_of(FORMATS.replace("name: A", "name: B")) == print_of(FORMATS)


OTHER = {
    "name": BASE.replace("pipeline: one", "pipeline: two"),
    "operator": BASE.replace("name: only", "name: other"),
    "topic": BASE.replace("topic: out", "topic: other"),
    "type": BASE.replace("price: float64", "price: int64"),
    "window": BASE.replace("count(5)", "count(6)"),
    "trigger": BASE.replace("count(2)", "count(3)"),
    "fullness": BASE.replace("count(2)", "count(2)\n    aggregate_incomplete_windows: false"),
    "expression": BASE.replace("Sum(size)", "Sum(size + 1)"),
    "int and float": BASE.replace("Sum(size)", "Sum(price)"),
    "order of attributes": BASE.replace("{n: Count(), x: Sum(size)}", "{x: Sum(size), n: Count()}"),
    "marks": BASE.replace("topic: out", "topic: out, marks: none"),
    "clock": BASE + "clock: records",
    "origin": BASE + "clock_origin: 0",
    "buckets": BASE + "buckets: 8",
}


@pytest.mark.parametrize("text", SAME.values(), ids=SAME)
def test_same(text):
    assert print_of(text) == print_of(BASE)


@pytest.mark.parametrize("text", OTHER.values(), ids=OTHER)
def test_other(text):
    assert print_of(text) != print_of(BASE)


def test_it_does_not_depend_on_the_process(tmp_path):
    (tmp_path / "f").write_text(BASE)
    program = f"""
from sluice.model.fingerprint import fingerprint
from sluice.config.load import load
print(fingerprint(load({str(tmp_path / "f")!r})))
"""
    other = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert other.stdout.strip() == print_of(BASE)


def test_it_does_not_change_with_versions():
    """A checkpoint outlives the service that wrote it: if this fails, all of them are refused."""
    waiting = BASE.replace("count(2)", "count(2)\n    aggregate_incomplete_windows: false").replace(
        "topic: out", "topic: out, marks: record"
    )
    assert print_of(waiting) == "fd15a760843b5c395f02f1e1bf97fecd"
