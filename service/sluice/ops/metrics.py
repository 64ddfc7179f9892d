"""The metrics of a pipeline: the tables of all metrics, and the methods that update them.

Most values come from the ledger's entries. So they count only committed batches, whose outputs readers can see; a batch
that was given up is not counted. The values of labels are names in the pipeline file, topic partitions, and a fixed set
of words, so the number of series stays small.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric as MetricFamily

from sluice.time_units import SECOND

# Otherwise each counter and histogram has a second series with its creation time.
disable_created_metrics()  # type: ignore[no-untyped-call]

Counts = Mapping[str, Mapping[str, int]]
#: (topic, topic partition) -> offset
Offsets = Mapping[tuple[str, int], int]
CONTENT_TYPE = CONTENT_TYPE_LATEST
#: bounds of the durations of parts of a batch
PARTS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
SECONDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)


class StoreReport(NamedTuple):
    """The use of the store of `state:`.

    up        whether the last use of the store succeeded
    written   bytes that were written into the store since the report before
    since     planned time of the batch after which a restore would read the inputs, nanoseconds since 1970; None if it
              would read all batches
    margins   by topic partition: the first offset that a restore would read, minus the oldest one in Kafka; 0 if it
              would read none
    """

    up: bool
    written: int
    since: int | None
    margins: Offsets


class Metric(NamedTuple):
    name: str
    type: type[MetricWrapperBase]
    labels: tuple[str, ...]
    help: str
    #: the upper bounds of a histogram's buckets, seconds
    buckets: tuple[float, ...] = SECONDS


#: Kafka's exporters name the topic partition `partition`; with this label, too, their series can be joined with these
TOPIC_PARTITION = ("topic", "topic_partition", "partition")
TABLE = (
    Metric("sluice_records_read_total", Counter, ("stream", "kind"), "Number of tuples and marks read from Kafka."),
    Metric("sluice_records_written_total", Counter, ("stream", "kind"), "Number of records written to Kafka."),
    Metric(
        "sluice_change_events_total",
        Counter,
        ("stream", "operation"),
        "Number of change events read from Kafka; tombstone and no_row have no effect on a stream.",
    ),
    Metric(
        "sluice_dead_letters_total",
        Counter,
        ("stream", "reason"),
        "Number of records and tuples that could not be used.",
    ),
    Metric(
        "sluice_lag_records", Gauge, TOPIC_PARTITION, "Number of available records that the last batch did not read."
    ),
    Metric(
        "sluice_lost_offsets_total",
        Counter,
        TOPIC_PARTITION,
        "Number of offsets whose records Kafka had deleted before they were read (`on_data_loss: continue`).",
    ),
    Metric("sluice_next_offset", Gauge, TOPIC_PARTITION, "Offset of the next record to read."),
    Metric("sluice_operator_tuples_read_total", Counter, ("operator",), "Number of tuples that an operator received."),
    Metric(
        "sluice_operator_tuples_written_total", Counter, ("operator",), "Number of tuples that an operator emitted."
    ),
    Metric("sluice_windows_fired_total", Counter, ("operator",), "Number of firings of windows that were not empty."),
    Metric(
        "sluice_window_partitions",
        Gauge,
        ("operator",),
        "Number of window partitions in memory, including empty ones that were not yet compacted.",
    ),
    Metric(
        "sluice_window_tuples",
        Gauge,
        ("operator",),
        "Number of tuples that the windows contain, whether they are stored or only summarised.",
    ),
    Metric(
        "sluice_empty_panes_left_out",
        Gauge,
        ("operator",),
        "Number of empty panes without a result since the state began, as one watermark completed too many of a key.",
    ),
    Metric("sluice_clock_timestamp_seconds", Gauge, ("stage",), "Time of the operator clock, in seconds since 1970."),
    Metric("sluice_watermark_timestamp_seconds", Gauge, ("stream",), "Watermark of a stream, in seconds since 1970."),
    Metric("sluice_state_bytes", Gauge, ("stage",), "Size of the state in bytes, of all buckets."),
    Metric("sluice_state_read_bytes_total", Counter, (), "Number of bytes of state read from the checkpoint."),
    Metric("sluice_state_written_bytes_total", Counter, (), "Number of bytes of state written to the checkpoint."),
    Metric(
        "sluice_store_up",
        Gauge,
        ("stage",),
        "Whether the last use of the store of `state:` succeeded: 1 or 0. Absent without `state:`.",
    ),
    Metric("sluice_store_written_bytes_total", Counter, (), "Bytes of snapshots written to the store of `state:`."),
    Metric(
        "sluice_restore_timestamp_seconds",
        Gauge,
        ("stage",),
        "Time of the batch after which a restore would read the inputs again, in seconds since 1970; 0: all batches.",
    ),
    Metric(
        "sluice_restore_margin_records",
        Gauge,
        TOPIC_PARTITION,
        "First offset that a restore would read, minus the oldest offset in Kafka; 0 if it would read none; below 0 a "
        "restore is impossible.",
    ),
    Metric(
        "sluice_next_firing_timestamp_seconds",
        Gauge,
        ("stage",),
        "Time of the operator clock at which the clock alone causes the next output, in seconds since 1970; 0 if none.",
    ),
    Metric(
        "sluice_record_latency_seconds",
        Histogram,
        (),
        "Seconds from the timestamp of a batch's oldest record until the outputs of the batch are visible to readers.",
        (*SECONDS, 300.0, 1800.0, 3600.0),
    ),
    Metric(
        "sluice_lag_seconds",
        Gauge,
        ("stage",),
        "Age of the newest record that was read, in seconds, while there are unread records; else 0.",
    ),
    Metric("sluice_batches_total", Counter, (), "Number of batches written and recorded in the ledger."),
    Metric("sluice_batches_skipped_total", Counter, (), "Number of batches that ran again and were already written."),
    Metric(
        "sluice_transaction_duration_seconds",
        Histogram,
        (),
        "Seconds from a transaction's start until its records are visible to readers.",
    ),
    Metric("sluice_batch_duration_seconds", Histogram, (), "Seconds from a batch's start to its end."),
    Metric("sluice_batch_phase_seconds", Histogram, ("phase",), "Seconds of each of Spark's phases of a batch.", PARTS),
    Metric("sluice_batch_step_seconds", Histogram, ("step",), "Seconds of each step of the work of a batch.", PARTS),
    Metric(
        "sluice_batch_step_cpu_seconds_total",
        Counter,
        ("step",),
        "Processor seconds of the service's own thread in each step of the work of batches.",
    ),
    Metric("sluice_last_batch", Gauge, ("stage",), "Number of the last batch that was written."),
    Metric(
        "sluice_last_batch_timestamp_seconds", Gauge, ("stage",), "Write time of the last batch, in seconds since 1970."
    ),
    Metric("sluice_build_info", Gauge, ("version",), "Always 1; the labels name version and pipeline."),
)
#: the label of the metrics in TABLE and ABOUT_PIPELINES, which exposition.py adds
LABEL = "pipeline"
ABOUT_PIPELINES = (
    Metric(
        "sluice_pipeline_running",
        Gauge,
        (),
        "1 if the pipeline processes records; 0 while it starts, waits or is stopped.",
    ),
    Metric(
        "sluice_leader",
        Gauge,
        (),
        "1 if this instance has the lead of the pipeline, 0 if it waits for it. Absent without --standby.",
    ),
    Metric(
        "sluice_standby_ready",
        Gauge,
        (),
        "1 if this instance waits for the lead and can take over, 0 if it cannot. Absent unless it waits.",
    ),
    Metric(
        "sluice_pipeline_restarts_total",
        Counter,
        (),
        "Number of starts of the pipeline after the first, since its file was added or changed.",
    ),
    Metric(
        "sluice_running_batch_seconds", Gauge, (), "Seconds for which the oldest running batch runs; 0 if none runs."
    ),
    Metric(
        "sluice_running_batch_limit_seconds",
        Gauge,
        (),
        "Seconds after which a running batch counts as hung and the service as unhealthy.",
    ),
    Metric(
        "sluice_held_back_seconds",
        Gauge,
        ("operator",),
        "Seconds for which an operator has been unable to emit what it holds; 0 if nothing unusual holds it back.",
    ),
)
#: metrics of the processes that all pipelines of a service share, without the label
ABOUT_PROCESSES = (
    Metric(
        "sluice_memory_bytes",
        Gauge,
        ("process",),
        "Memory of the service's own process, of Java, and of all Python processes (shared pages divided among them).",
    ),
    Metric(
        "sluice_memory_limit_bytes",
        Gauge,
        (),
        "Memory that all processes may use together: the limit of the container, or else the memory of the machine.",
    ),
)
ABOUT_FILES = (
    Metric(
        "sluice_pipeline_file_wrong",
        Gauge,
        ("file",),
        "1 if the pipeline file is wrong, so that its last right version runs.",
    ),
)
#: quantity in `Report.operators` -> its metric: counters, and then gauges
COUNTERS = {
    "in": "sluice_operator_tuples_read_total",
    "out": "sluice_operator_tuples_written_total",
    "windows": "sluice_windows_fired_total",
}
GAUGES = {
    "partitions": "sluice_window_partitions",
    "tuples": "sluice_window_tuples",
    "left_out": "sluice_empty_panes_left_out",
}
#: Spark's name of the whole batch among the phases
WHOLE = "triggerExecution"


class Report(Protocol):
    """The report of a batch (service/sluice/kafka/batch_report.py)."""

    @property
    def read(self) -> Counts: ...
    @property
    def written(self) -> Counts: ...
    @property
    def changes(self) -> Counts: ...
    @property
    def dead_letters(self) -> Counts: ...
    @property
    def operators(self) -> Counts: ...
    @property
    def lost(self) -> Counts: ...
    @property
    def state(self) -> Mapping[str, int]: ...
    @property
    def watermarks(self) -> Mapping[str, int]: ...
    @property
    def clock(self) -> int | None: ...
    @property
    def due(self) -> int | None: ...
    @property
    def oldest(self) -> int | None: ...
    @property
    def newest(self) -> int | None: ...


class Entry(Protocol):
    """The ledger's entry about a batch. `at` and `began` are in milliseconds since 1970; `began` is 0 if not known."""

    @property
    def query(self) -> str: ...
    @property
    def batch(self) -> int: ...
    @property
    def at(self) -> int: ...
    @property
    def began(self) -> int: ...
    @property
    def skipped(self) -> int: ...
    @property
    def report(self) -> Report: ...


class Metrics:
    """The metrics of one pipeline, in a registry of their own. The methods may be called from any thread."""

    def __init__(self, version: str, *, now: Callable[[], float] = time.time) -> None:
        """`now` gives the seconds since 1970."""
        self._now = now
        #: by stage: the timestamp of the newest record that was read, in seconds since 1970
        self._newest: dict[str, float] = {}
        #: by stage: the number of unread records, and the lag in seconds
        self._behind: dict[str, tuple[int, float]] = {}
        self._registry = CollectorRegistry()
        self._metrics = {metric.name: _made(metric, self._registry) for metric in TABLE}
        self._metrics["sluice_build_info"].labels(version).set(1)

    def count(self, report: Report) -> None:
        """Adds a batch's report. A report of zeros creates the series, so that they exist before the first event."""
        self._count("sluice_records_read_total", report.read)
        self._count("sluice_records_written_total", report.written)
        self._count("sluice_change_events_total", report.changes)
        self._count("sluice_dead_letters_total", report.dead_letters)
        for topic, lost in report.lost.items():
            for partition, offsets in lost.items():
                self._metrics["sluice_lost_offsets_total"].labels(topic, partition, partition).inc(offsets)
        for operator, numbers in report.operators.items():
            for quantity, name in COUNTERS.items():
                self._metrics[name].labels(operator).inc(numbers.get(quantity, 0))
        self._set_operators(report)
        if report.state:
            self._metrics["sluice_state_read_bytes_total"].inc(report.state.get("read", 0))
            self._metrics["sluice_state_written_bytes_total"].inc(report.state.get("written", 0))

    def restored(self, entry: Entry) -> None:
        """Sets the gauges at a start, from the entry of the last batch of an earlier one. Counters do not change."""
        self._set_operators(entry.report)
        self._set_stage(entry)

    def _set_operators(self, report: Report) -> None:
        for operator, numbers in report.operators.items():
            for quantity, name in GAUGES.items():
                if quantity in numbers:
                    self._metrics[name].labels(operator).set(numbers[quantity])
        for stream, watermark in report.watermarks.items():
            self._metrics["sluice_watermark_timestamp_seconds"].labels(stream).set(watermark / SECOND)

    def batch_written(self, entry: Entry) -> None:
        """Updates the metrics from the ledger's entry about a batch. Now its records are visible to readers."""
        report, now = entry.report, self._now()
        self.count(report)
        self._set_stage(entry)
        self._metrics["sluice_batches_total"].inc()
        self._metrics["sluice_batches_skipped_total"].inc(entry.skipped)
        if entry.began:
            self._metrics["sluice_transaction_duration_seconds"].observe(max(0.0, now - entry.began / 1000))
        if report.oldest is not None:
            self._metrics["sluice_record_latency_seconds"].observe(max(0.0, now - report.oldest / SECOND))

    def _set_stage(self, entry: Entry) -> None:
        """Sets the gauges of a stage."""
        stage, report = entry.query, entry.report
        if report.state:
            self._metrics["sluice_state_bytes"].labels(stage).set(report.state.get("held", 0))
        if report.clock is not None:
            self._metrics["sluice_clock_timestamp_seconds"].labels(stage).set(report.clock / SECOND)
        self._metrics["sluice_next_firing_timestamp_seconds"].labels(stage).set((report.due or 0) / SECOND)
        if report.newest is not None:
            self._newest[stage] = max(report.newest / SECOND, self._newest.get(stage, 0.0))
        self._metrics["sluice_last_batch"].labels(stage).set(entry.batch)
        self._metrics["sluice_last_batch_timestamp_seconds"].labels(stage).set(entry.at / 1000)

    def batch_ended(self, phases: Mapping[str, float]) -> None:
        """Updates the durations after a batch has ended. `phases`: seconds by phase; WHOLE is the whole batch."""
        self._metrics["sluice_batch_duration_seconds"].observe(phases.get(WHOLE, 0.0))
        for phase, seconds in phases.items():
            if phase != WHOLE:
                self._metrics["sluice_batch_phase_seconds"].labels(phase).observe(seconds)

    def step_ended(self, step: str, seconds: float, cpu_seconds: float) -> None:
        """Updates the durations after a step of a batch (batch_progress.py) has succeeded."""
        self._metrics["sluice_batch_step_seconds"].labels(step).observe(seconds)
        self._metrics["sluice_batch_step_cpu_seconds_total"].labels(step).inc(cpu_seconds)

    def offsets(self, read: Offsets, ends: Offsets) -> int:
        """Updates offsets and lag. Returns the number of available records that the batch did not read.

        read   end offsets of a batch
        ends   ends of the logs when the batch was planned
        """
        unread = 0
        for (topic, partition), offset in read.items():
            self._metrics["sluice_next_offset"].labels(topic, partition, partition).set(offset)
            behind = max(0, ends.get((topic, partition), offset) - offset)
            self._metrics["sluice_lag_records"].labels(topic, partition, partition).set(behind)
            unread += behind
        return unread

    def behind(self, stage: str, records: int) -> None:
        """Updates the lag in seconds. `records`: number of available records that the last batch did not read."""
        newest = self._newest.get(stage)
        lag = max(0.0, self._now() - newest) if records and newest is not None else 0.0
        self._metrics["sluice_lag_seconds"].labels(stage).set(lag)
        self._behind[stage] = (records, lag)

    def backlog(self) -> tuple[int, float]:
        """The unread records of all stages after their last batches, and the longest lag in seconds."""
        behind = [*self._behind.values()]
        return sum(records for records, _ in behind), max((lag for _, lag in behind), default=0.0)

    def store(self, stage: str, report: StoreReport) -> None:
        """Updates what is known of the store of `state:`."""
        self._metrics["sluice_store_up"].labels(stage).set(report.up)
        self._metrics["sluice_store_written_bytes_total"].inc(report.written)
        self._metrics["sluice_restore_timestamp_seconds"].labels(stage).set((report.since or 0) / SECOND)
        for (topic, partition), margin in report.margins.items():
            self._metrics["sluice_restore_margin_records"].labels(topic, partition, partition).set(margin)

    def families(self) -> Iterable[MetricFamily]:
        """The metrics with their present values, without the label `pipeline`."""
        return self._registry.collect()

    def _count(self, name: str, counts: Counts) -> None:
        for stream, by_kind in counts.items():
            for kind, count in by_kind.items():
                self._metrics[name].labels(stream, kind).inc(count)


def _made(metric: Metric, registry: CollectorRegistry) -> Any:  # noqa: ANN401 - the library's types share no methods
    more: dict[str, Any] = {"buckets": metric.buckets} if metric.type is Histogram else {}
    return metric.type(metric.name, metric.help, metric.labels, registry=registry, **more)
