"""The metrics of the service: one table of what there is, and the calls that feed it.

What was read, written and held is counted from the ledger, so it counts what readers can see; a batch that was given up
never shows. Labels are names in the pipeline file, words of ours, and topic partitions: there are few of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.metrics import MetricWrapperBase

from sluice.time_units import SECOND

# When each series began would be as many series again.
disable_created_metrics()  # type: ignore[no-untyped-call]

Counts = Mapping[str, Mapping[str, int]]
#: by topic and topic partition
Places = Mapping[tuple[str, int], int]
CONTENT_TYPE = CONTENT_TYPE_LATEST
SECONDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)


class Metric(NamedTuple):
    name: str
    type: type[MetricWrapperBase]
    labels: tuple[str, ...]
    help: str


PLACE = ("topic", "topic_partition")
TABLE = (
    Metric("sluice_records_read_total", Counter, ("stream", "kind"), "Records read, by stream and kind."),
    Metric("sluice_records_written_total", Counter, ("stream", "kind"), "Records written, by stream and kind."),
    Metric("sluice_dead_letters_total", Counter, ("stream", "reason"), "Records set aside, by stream and reason."),
    Metric("sluice_lag_records", Gauge, PLACE, "Records not read yet when the last batch began, by topic partition."),
    Metric("sluice_next_offset", Gauge, PLACE, "Offset of the record that is read next, by topic partition."),
    Metric("sluice_operator_tuples_read_total", Counter, ("operator",), "Tuples that came to an operator."),
    Metric("sluice_operator_tuples_written_total", Counter, ("operator",), "Tuples that an operator made."),
    Metric("sluice_windows_fired_total", Counter, ("operator",), "Windows that fired and held something."),
    Metric("sluice_window_partitions", Gauge, ("operator",), "Window partitions known; empty ones go in turns."),
    Metric("sluice_window_tuples", Gauge, ("operator",), "Tuples stored; where a summary will do, there are none."),
    Metric("sluice_clock_timestamp_seconds", Gauge, ("stage",), "The operator clock, in Unix time."),
    Metric("sluice_watermark_timestamp_seconds", Gauge, ("stream",), "The watermark of a stream, in Unix time."),
    Metric("sluice_state_bytes", Gauge, ("stage",), "Size of the state."),
    Metric("sluice_state_read_bytes_total", Counter, (), "State read from the checkpoint."),
    Metric("sluice_state_written_bytes_total", Counter, (), "State written to the checkpoint."),
    Metric("sluice_batches_total", Counter, (), "Batches written: transactions committed."),
    Metric("sluice_batches_skipped_total", Counter, (), "Batches run again that the ledger had already."),
    Metric("sluice_transaction_duration_seconds", Histogram, (), "Time from the start of a transaction to its commit."),
    Metric("sluice_batch_duration_seconds", Histogram, (), "Time from the start of a batch to its end."),
    Metric("sluice_batch_phase_seconds_total", Counter, ("phase",), "Time spent in each phase, in Spark's words."),
    Metric("sluice_last_batch", Gauge, ("stage",), "Number of the last batch written."),
    Metric("sluice_last_batch_timestamp_seconds", Gauge, ("stage",), "When the last batch was written, in Unix time."),
    Metric("sluice_build_info", Gauge, ("version", "pipeline"), "Always 1; which version runs which pipeline."),
)
#: what an operator did -> its counter; what it holds -> its gauge
DONE = {
    "in": "sluice_operator_tuples_read_total",
    "out": "sluice_operator_tuples_written_total",
    "windows": "sluice_windows_fired_total",
}
HELD = {"partitions": "sluice_window_partitions", "tuples": "sluice_window_tuples"}
#: the phase that is all of the others
WHOLE = "triggerExecution"


class Report(Protocol):
    """What a batch did (service/sluice/kafka/batch_report.py)."""

    @property
    def read(self) -> Counts: ...
    @property
    def written(self) -> Counts: ...
    @property
    def dead_letters(self) -> Counts: ...
    @property
    def operators(self) -> Counts: ...
    @property
    def state(self) -> Mapping[str, int]: ...
    @property
    def watermarks(self) -> Mapping[str, int]: ...
    @property
    def clock(self) -> int | None: ...


class Entry(Protocol):
    """What the ledger says of a batch; `at` and `took` in milliseconds."""

    @property
    def query(self) -> str: ...
    @property
    def batch(self) -> int: ...
    @property
    def at(self) -> int: ...
    @property
    def took(self) -> int: ...
    @property
    def skipped(self) -> int: ...
    @property
    def report(self) -> Report: ...


class Metrics:
    """All metrics of one service, in a registry of their own. Its methods may be called from any thread."""

    def __init__(self, pipeline: str, version: str) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._metrics = {metric.name: _made(metric, self._registry) for metric in TABLE}
        self._metrics["sluice_build_info"].labels(version, pipeline).set(1)

    def count(self, report: Report) -> None:
        """Adds what a batch did. One of zeros makes everything known that will be counted."""
        self._count("sluice_records_read_total", report.read)
        self._count("sluice_records_written_total", report.written)
        self._count("sluice_dead_letters_total", report.dead_letters)
        for operator, numbers in report.operators.items():
            for what, name in DONE.items():
                self._metrics[name].labels(operator).inc(numbers.get(what, 0))
            for what, name in HELD.items():
                if what in numbers:
                    self._metrics[name].labels(operator).set(numbers[what])
        if report.state:
            self._metrics["sluice_state_read_bytes_total"].inc(report.state.get("read", 0))
            self._metrics["sluice_state_written_bytes_total"].inc(report.state.get("written", 0))
        for stream, watermark in report.watermarks.items():
            self._metrics["sluice_watermark_timestamp_seconds"].labels(stream).set(watermark / SECOND)

    def batch_written(self, entry: Entry) -> None:
        """A batch has become visible."""
        stage, report = entry.query, entry.report
        self.count(report)
        if report.state:
            self._metrics["sluice_state_bytes"].labels(stage).set(report.state.get("held", 0))
        if report.clock is not None:
            self._metrics["sluice_clock_timestamp_seconds"].labels(stage).set(report.clock / SECOND)
        self._metrics["sluice_batches_total"].inc()
        self._metrics["sluice_batches_skipped_total"].inc(entry.skipped)
        self._metrics["sluice_last_batch"].labels(stage).set(entry.batch)
        self._metrics["sluice_last_batch_timestamp_seconds"].labels(stage).set(entry.at / 1000)
        if entry.took:
            self._metrics["sluice_transaction_duration_seconds"].observe(entry.took / 1000)

    def batch_ended(self, phases: Mapping[str, float]) -> None:
        """A batch was run; each of its phases took so many seconds, WHOLE is all of them."""
        self._metrics["sluice_batch_duration_seconds"].observe(phases.get(WHOLE, 0.0))
        for phase, seconds in phases.items():
            if phase != WHOLE:
                self._metrics["sluice_batch_phase_seconds_total"].labels(phase).inc(seconds)

    def offsets(self, read: Places, ends: Places) -> None:
        """How far a batch read each topic partition, and where it ended then."""
        for (topic, partition), offset in read.items():
            self._metrics["sluice_next_offset"].labels(topic, str(partition)).set(offset)
            behind = max(0, ends.get((topic, partition), offset) - offset)
            self._metrics["sluice_lag_records"].labels(topic, str(partition)).set(behind)

    def exposition(self) -> bytes:
        """All of them as Prometheus reads them."""
        return generate_latest(self._registry)

    def _count(self, name: str, counts: Counts) -> None:
        for stream, by_kind in counts.items():
            for kind, count in by_kind.items():
                self._metrics[name].labels(stream, kind).inc(count)


def _made(metric: Metric, registry: CollectorRegistry) -> Any:  # noqa: ANN401 - the library's types share no methods
    more: dict[str, Any] = {"buckets": SECONDS} if metric.type is Histogram else {}
    return metric.type(metric.name, metric.help, metric.labels, registry=registry, **more)
