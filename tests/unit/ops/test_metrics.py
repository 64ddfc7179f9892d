import os
import re
import subprocess
import sys

import pytest

from sluice.files import project_file
from sluice.kafka.batch_report import Entry, Report
from sluice.ops.exposition import memory_limit, memory_of_processes
from sluice.ops.metrics import ABOUT_FILES, ABOUT_PIPELINES, ABOUT_PROCESSES, TABLE, Metrics


def samples(metrics):
    """name and labels -> value."""
    return {(s.name, *sorted(s.labels.items())): s.value for family in metrics.families() for s in family.samples}


@pytest.fixture
def metrics():
    return Metrics("1.2.3")


def entry(batch, skipped=0, began=0, **counts):
    return Entry("flights", "id", batch, 1_700_000_000_500, skipped, Report(**counts), began)


def test_records_are_counted_from_the_ledgers_entries(metrics):
    metrics.batch_written(entry(3, read={"in": {"tuple": 5, "window": 1}}, dead_letters={"in": {"not JSON": 2}}))
    metrics.batch_written(
        entry(4, skipped=1, read={"in": {"tuple": 1}}, written={"out": {"tuple": 7}}, lost={"topic": {"3": 5}})
    )
    found = samples(metrics)
    assert found["sluice_records_read_total", ("kind", "tuple"), ("stream", "in")] == 6
    assert found["sluice_records_read_total", ("kind", "window"), ("stream", "in")] == 1
    assert found["sluice_records_written_total", ("kind", "tuple"), ("stream", "out")] == 7
    assert found["sluice_dead_letters_total", ("reason", "not JSON"), ("stream", "in")] == 2
    assert found["sluice_lost_offsets_total", ("partition", "3"), ("topic", "topic"), ("topic_partition", "3")] == 5
    assert found["sluice_batches_total",] == 2
    assert found["sluice_batches_skipped_total",] == 1
    assert found["sluice_last_batch", ("stage", "flights")] == 4
    assert found["sluice_last_batch_timestamp_seconds", ("stage", "flights")] == 1_700_000_000.5


def test_what_operators_did_adds_up_and_what_they_hold_is_the_last_that_was_said(metrics):
    batch = {"in": 10, "out": 4, "windows": 2, "partitions": 3, "tuples": 100}
    metrics.batch_written(entry(0, operators={"a": batch}))
    metrics.batch_written(entry(1, operators={"a": batch | {"partitions": 2, "tuples": 50}}))
    metrics.batch_written(entry(2))  # nothing came
    found = samples(metrics)
    assert found["sluice_operator_tuples_read_total", ("operator", "a")] == 20
    assert found["sluice_operator_tuples_written_total", ("operator", "a")] == 8
    assert found["sluice_windows_fired_total", ("operator", "a")] == 4
    assert found["sluice_window_partitions", ("operator", "a")] == 2
    assert found["sluice_window_tuples", ("operator", "a")] == 50


def test_the_state_and_the_clock(metrics):
    metrics.batch_written(entry(0, state={"read": 5, "written": 7, "held": 9}, clock=1_500_000_000))
    metrics.batch_written(entry(1, state={"read": 0, "written": 1, "held": 8}, clock=2_000_000_000))
    metrics.batch_written(entry(2))
    found = samples(metrics)
    assert found["sluice_state_read_bytes_total",] == 5
    assert found["sluice_state_written_bytes_total",] == 8
    assert found["sluice_state_bytes", ("stage", "flights")] == 8
    assert found["sluice_clock_timestamp_seconds", ("stage", "flights")] == 2.0


def test_the_watermark_of_each_stream(metrics):
    metrics.batch_written(entry(0, watermarks={"in": 1_500_000_000, "out": 0}))
    metrics.batch_written(entry(1, watermarks={"in": 2_500_000_000}))
    found = samples(metrics)
    assert found["sluice_watermark_timestamp_seconds", ("stream", "in")] == 2.5
    assert found["sluice_watermark_timestamp_seconds", ("stream", "out")] == 0


def test_a_transaction_is_timed_until_its_own_entry_is_visible():
    metrics = Metrics("1", now=lambda: 1_700_000_001.0)
    metrics.batch_written(entry(0, began=1_700_000_000_500))
    assert samples(metrics)["sluice_transaction_duration_seconds_sum",] == 0.5
    assert samples(metrics)["sluice_transaction_duration_seconds_count",] == 1


def test_the_transaction_of_an_earlier_start_is_not_timed_again():
    metrics = Metrics("1", now=lambda: 1_700_000_001.0)
    metrics.restored(entry(0, began=1_600_000_000_500))
    assert samples(metrics)["sluice_transaction_duration_seconds_count",] == 0


def test_batches_are_timed_with_their_phases(metrics):
    metrics.batch_ended({"triggerExecution": 0.25, "addBatch": 0.2, "walCommit": 0.05})
    metrics.batch_ended({"triggerExecution": 0.25, "addBatch": 0.2})
    found = samples(metrics)
    assert found["sluice_batch_duration_seconds_bucket", ("le", "0.3")] == 2
    assert found["sluice_batch_duration_seconds_bucket", ("le", "0.2")] == 0
    assert found["sluice_batch_phase_seconds_sum", ("phase", "addBatch")] == 0.4
    assert ("sluice_batch_phase_seconds_sum", ("phase", "triggerExecution")) not in found


def test_the_steps_of_batches_are_timed(metrics):
    metrics.step_ended("read", 0.004, 0.001)
    metrics.step_ended("read", 0.002, 0.001)
    found = samples(metrics)
    assert found["sluice_batch_step_cpu_seconds_total", ("step", "read")] == 0.002
    assert found["sluice_batch_step_seconds_sum", ("step", "read")] == 0.006
    assert found["sluice_batch_step_seconds_bucket", ("le", "0.002"), ("step", "read")] == 1


def test_offsets_and_lag_by_topic_partition(metrics):
    metrics.offsets({("trades", 0): 100, ("trades", 1): 3}, {("trades", 0): 107, ("trades", 1): 3})
    found = samples(metrics)
    assert found["sluice_next_offset", ("partition", "0"), ("topic", "trades"), ("topic_partition", "0")] == 100
    assert found["sluice_lag_records", ("partition", "0"), ("topic", "trades"), ("topic_partition", "0")] == 7
    assert found["sluice_lag_records", ("partition", "1"), ("topic", "trades"), ("topic_partition", "1")] == 0


def test_what_will_be_counted_is_known_before_it_happens(metrics):
    metrics.count(Report(read={"in": {"tuple": 0}}, operators={"a": {}}))
    found = samples(metrics)
    assert found["sluice_records_read_total", ("kind", "tuple"), ("stream", "in")] == 0
    assert found["sluice_windows_fired_total", ("operator", "a")] == 0
    assert ("sluice_window_tuples", ("operator", "a")) not in found


def test_gauges_are_there_after_a_restart(metrics):
    """Counters are not: an earlier start counted what the entry says."""
    last = entry(
        7, read={"in": {"tuple": 5}}, operators={"a": {"in": 5, "partitions": 2, "tuples": 50}}, clock=2_000_000_000,
        state={"held": 9, "written": 7}, watermarks={"in": 1_500_000_000}, due=3_000_000_000,
    )  # fmt: skip
    metrics.restored(last)
    found = samples(metrics)
    assert found["sluice_window_tuples", ("operator", "a")] == 50
    assert found["sluice_state_bytes", ("stage", "flights")] == 9
    assert found["sluice_clock_timestamp_seconds", ("stage", "flights")] == 2
    assert found["sluice_watermark_timestamp_seconds", ("stream", "in")] == 1.5
    assert found["sluice_next_firing_timestamp_seconds", ("stage", "flights")] == 3
    assert found["sluice_last_batch", ("stage", "flights")] == 7
    assert found["sluice_batches_total",] == found["sluice_state_written_bytes_total",] == 0
    assert ("sluice_records_read_total", ("kind", "tuple"), ("stream", "in")) not in found


def test_the_next_firing_of_a_timer(metrics):
    metrics.batch_written(entry(0, due=5_000_000_000))
    assert samples(metrics)["sluice_next_firing_timestamp_seconds", ("stage", "flights")] == 5
    metrics.batch_written(entry(1))
    assert samples(metrics)["sluice_next_firing_timestamp_seconds", ("stage", "flights")] == 0


def test_the_latency_of_the_oldest_record():
    metrics = Metrics("1", now=lambda: 1_700_000_000.5)
    metrics.batch_written(entry(0, oldest=1_699_999_998_500_000_000, newest=1_700_000_000_000_000_000))
    metrics.batch_written(entry(1))
    found = samples(metrics)
    assert found["sluice_record_latency_seconds_sum",] == 2.0
    assert found["sluice_record_latency_seconds_count",] == 1
    assert found["sluice_record_latency_seconds_bucket", ("le", "3600.0")] == 1


def test_the_lag_in_seconds():
    metrics = Metrics("1", now=lambda: 1_700_000_010.0)
    metrics.behind("flights", 5)
    assert samples(metrics)["sluice_lag_seconds", ("stage", "flights")] == 0, "nothing is known before the first record"
    metrics.batch_written(entry(0, newest=1_700_000_003_000_000_000))
    metrics.behind("flights", 5)
    assert samples(metrics)["sluice_lag_seconds", ("stage", "flights")] == 7
    metrics.behind("flights", 0)
    assert samples(metrics)["sluice_lag_seconds", ("stage", "flights")] == 0


def test_memory_is_read_of_this_process_and_its_children():
    with subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=-1, stdout=-1) as child:
        child.stdout.readline()
        found = memory_of_processes()
        child.communicate(b"\n")
    assert found["service"] > 10 << 20
    assert 1 << 20 < found["python"] < 1 << 30


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"memory.max": "4294967296\n"}, 4 << 30),
        ({"memory.limit_in_bytes": "1073741824\n"}, 1 << 30),
        ({"memory.max": "max\n"}, None),
        ({"memory.limit_in_bytes": "9223372036854771712\n"}, None),  # the older version's word for "no limit"
        ({}, None),
    ],
)
def test_the_memory_of_the_machine_is_the_limit_where_the_container_has_none(tmp_path, files, limit):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [tmp_path / name for name in ("memory.max", "memory.limit_in_bytes")]
    assert memory_limit(limits) == min(limit or machine, machine)


def test_the_build_is_named(metrics):
    assert samples(metrics)["sluice_build_info", ("version", "1.2.3")] == 1


def test_two_pipelines_in_one_process_do_not_share_counts(metrics):
    metrics.batch_written(entry(0))
    assert samples(Metrics("1"))["sluice_batches_total",] == 0


@pytest.mark.parametrize(
    "metric", [*TABLE, *ABOUT_PIPELINES, *ABOUT_PROCESSES, *ABOUT_FILES], ids=lambda metric: metric.name
)
def test_names_follow_prometheus_conventions(metric):
    kind = metric.type.__name__
    assert metric.name.startswith("sluice_")
    assert metric.name.endswith("_total") == (kind == "Counter")
    if kind == "Histogram":
        assert metric.name.endswith("_seconds")
    assert not re.search(r"_(ms|milliseconds|kb|mb|minutes)(_|$)", metric.name)
    assert metric.help.endswith(".")


def test_the_page_about_them_has_the_same_rows():
    page = project_file("docs/metrics.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("* `sluice_")]
    assert rows == [
        f"* `{m.name}`{f' ({labels})' if (labels := ', '.join(f'`{label}`' for label in m.labels)) else ''}: {m.help}"
        for m in (*TABLE, *ABOUT_PIPELINES, *ABOUT_PROCESSES, *ABOUT_FILES)
    ]
    histograms = ", ".join(f"`{m.name}`" for m in (*TABLE, *ABOUT_PIPELINES) if m.type.__name__ == "Histogram")
    assert f"Histograms are {histograms};" in page
