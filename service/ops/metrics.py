"""The metrics of the service: one table of what there is, and the calls that feed it.

What was written is counted from the ledger, so it counts what readers can see; a batch that was given up never shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics import MetricWrapperBase

Counts = Mapping[str, Mapping[str, int]]
CONTENT_TYPE = CONTENT_TYPE_LATEST
SECONDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)


class Metric(NamedTuple):
    name: str
    type: type[MetricWrapperBase]
    labels: tuple[str, ...]
    help: str


TABLE = (
    Metric("sluice_records_read_total", Counter, ("stream", "kind"), "Records read, by stream and kind."),
    Metric("sluice_records_written_total", Counter, ("stream", "kind"), "Records written, by stream and kind."),
    Metric("sluice_dead_letters_total", Counter, ("stream", "reason"), "Records set aside, by stream and reason."),
    Metric("sluice_batches_total", Counter, (), "Batches written."),
    Metric("sluice_batches_skipped_total", Counter, (), "Batches run again that the ledger had already."),
    Metric("sluice_last_batch", Gauge, (), "Number of the last batch written."),
    Metric("sluice_last_batch_timestamp_seconds", Gauge, (), "When the last batch was written, in Unix time."),
    Metric("sluice_batch_duration_seconds", Histogram, (), "Time from the start of a batch to its end."),
    Metric("sluice_lag_records", Gauge, ("topic", "topic_partition"), "Records not read yet, by topic partition."),
    Metric("sluice_build_info", Gauge, ("version", "pipeline"), "Always 1; which version runs which pipeline."),
)


class Report(Protocol):
    """Counts of records by stream and kind (dead letters: by the stream and the word of their reason)."""

    @property
    def read(self) -> Counts: ...
    @property
    def written(self) -> Counts: ...
    @property
    def dead_letters(self) -> Counts: ...


class Entry(Protocol):
    """What the ledger says of a batch; `at` in milliseconds."""

    @property
    def batch(self) -> int: ...
    @property
    def at(self) -> int: ...
    @property
    def skipped(self) -> int: ...
    @property
    def report(self) -> Report: ...


class Metrics:
    """All metrics of one service, in a registry of their own. Its methods may be called from any thread."""

    def __init__(self, pipeline: str, version: str) -> None:
        self._registry = CollectorRegistry()
        self._metrics = {metric.name: _made(metric, self._registry) for metric in TABLE}
        self._metrics["sluice_build_info"].labels(version, pipeline).set(1)

    def batch_written(self, entry: Entry) -> None:
        """A batch has become visible."""
        self._count("sluice_records_read_total", entry.report.read)
        self._count("sluice_records_written_total", entry.report.written)
        self._count("sluice_dead_letters_total", entry.report.dead_letters)
        self._metrics["sluice_batches_total"].inc()
        self._metrics["sluice_batches_skipped_total"].inc(entry.skipped)
        self._metrics["sluice_last_batch"].set(entry.batch)
        self._metrics["sluice_last_batch_timestamp_seconds"].set(entry.at / 1000)

    def batch_ended(self, seconds: float) -> None:
        """A batch was run, which took so long."""
        self._metrics["sluice_batch_duration_seconds"].observe(seconds)

    def lag(self, records: Mapping[tuple[str, int], int]) -> None:
        """How many records of each topic partition are not read yet."""
        for (topic, partition), count in records.items():
            self._metrics["sluice_lag_records"].labels(topic, str(partition)).set(count)

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
