"""Makes the board: `python deploy/grafana/board.py > deploy/grafana/boards/sluice.json`.

A panel is a line here and forty in Grafana's JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

#: the data source that is chosen above the board
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
#: Grafana's own
RATE = "$__rate_interval"
#: the labels of series of pipelines, and of series of processes
WHERE, PROCESSES = '{job=~"$job", pipeline=~"$pipeline"}', '{job=~"$job"}'
#: from these values on a number is yellow, and red
Limits = tuple[float, float]


class Panel(NamedTuple):
    """A panel. `limits` colour a single number, or are lines in a diagram; `alerts` link to the page about alerts.

    `signed`: the values may be below 0.
    """

    title: str
    #: query -> legend
    queries: dict[str, str]
    unit: str
    description: str
    kind: str = "timeseries"
    limits: Limits | None = None
    alerts: tuple[str, ...] = ()
    signed: bool = False


def rate(metric: str, *by: str) -> str:
    total = f"rate({metric}{WHERE}[{RATE}])"
    return f"sum by ({', '.join(by)}) ({total})" if by else f"sum({total})"


def quantile(share: float, metric: str) -> str:
    return f"histogram_quantile({share}, {rate(f'{metric}_bucket', 'le')})"


def quantiles(metric: str) -> dict[str, str]:
    return {quantile(0.5, metric): "p50", quantile(0.99, metric): "p99"}


ROWS: dict[str, list[Panel]] = {
    "Now": [
        Panel(
            "Pipelines that do not run",
            {f"count(sluice_pipeline_running{WHERE} == 0) or vector(0)": ""},
            "short",
            "Pipelines that start, wait for their next start after a failure, or were stopped.",
            "stat",
            (1, 1),
            ("SluicePipelineDown", "SluicePipelineRestarts"),
        ),
        Panel(
            "Operators that are held back",
            {f"count(sluice_held_back_seconds{WHERE} > 0) or vector(0)": ""},
            "short",
            "Operators that hold tuples and cannot emit them. The page of the service says why.",
            "stat",
            (1, 1),
            ("SluiceHeldBack",),
        ),
        Panel(
            "Records read per second",
            {rate("sluice_records_read_total"): ""},
            "rps",
            "Tuples and marks read from Kafka.",
            "stat",
        ),
        Panel(
            "Records written per second",
            {rate("sluice_records_written_total"): ""},
            "wps",
            "Records written to Kafka.",
            "stat",
        ),
        Panel(
            "Unread records",
            {f"sum(sluice_lag_records{WHERE})": ""},
            "short",
            "Available records that are not read yet.",
            "stat",
            (10_000, 100_000),
            ("SluiceFallsBehind",),
        ),
        Panel(
            "Dead letters in the last hour",
            {f"sum(increase(sluice_dead_letters_total{WHERE}[1h]))": ""},
            "short",
            "Records and tuples that could not be used, in the last hour.",
            "stat",
            (1, 100),
            ("SluiceDeadLetters", "SluiceManyDeadLetters"),
        ),
        Panel(
            "Batch duration, p99",
            {quantile(0.99, "sluice_batch_duration_seconds"): ""},
            "s",
            "Duration of all but the slowest hundredth of the batches.",
            "stat",
            (10, 30),
            ("SluiceSlowBatches",),
        ),
        Panel(
            "Time since the last batch",
            {f"time() - min(sluice_last_batch_timestamp_seconds{WHERE})": ""},
            "s",
            "Time since the last batch of the pipeline that has waited longest. It grows while nothing comes.",
            "stat",
            None,
            ("SluiceStalled",),
        ),
    ],
    "Streams": [
        Panel(
            "Records read, by stream",
            {rate("sluice_records_read_total", "pipeline", "stream", "kind"): "{{pipeline}} {{stream}} {{kind}}"},
            "rps",
            "Tuples and marks of each input.",
        ),
        Panel(
            "Records written, by stream",
            {rate("sluice_records_written_total", "pipeline", "stream", "kind"): "{{pipeline}} {{stream}} {{kind}}"},
            "wps",
            "Tuples and marks of each output.",
        ),
        Panel(
            "Change events, by operation",
            {
                rate(
                    "sluice_change_events_total", "pipeline", "stream", "operation"
                ): "{{pipeline}} {{stream}} {{operation}}"
            },
            "rps",
            "Records of inputs with an envelope: created, read, updated and deleted rows, and what has no row.",
        ),
        Panel(
            "Dead letters, by reason",
            {rate("sluice_dead_letters_total", "pipeline", "stream", "reason"): "{{pipeline}} {{stream}}: {{reason}}"},
            "cps",
            "Records of each stream that could not be used, by reason.",
            alerts=("SluiceDeadLetters", "SluiceManyDeadLetters"),
        ),
    ],
    "Topic partitions": [
        Panel(
            "Unread records, by topic partition",
            {f"sum by (topic, topic_partition) (sluice_lag_records{WHERE})": "{{topic}} {{topic_partition}}"},
            "short",
            "Available records that the last batch did not read.",
            alerts=("SluiceFallsBehind",),
        ),
        Panel(
            "Offsets read per second, by topic partition",
            {
                rate("sluice_next_offset", "topic", "topic_partition"): "{{topic}} {{topic_partition}}",
                rate("sluice_lost_offsets_total", "topic", "topic_partition"): "{{topic}} {{topic_partition}} lost",
            },
            "cps",
            "How fast each topic partition is read. One that stands still may hold back a watermark. Lost are offsets "
            "whose records Kafka had deleted before.",
        ),
        Panel(
            "Delay of the operator clock",
            {f"time() - sluice_clock_timestamp_seconds{WHERE}": "{{stage}}"},
            "s",
            "The operator clock. While nothing comes it stands until the next window is due.",
        ),
        Panel(
            "Age of the newest record, while others are unread",
            {f"sluice_lag_seconds{WHERE}": "{{stage}}"},
            "s",
            "Age of the newest record that was read, while others are unread.",
            limits=(60, 300),
            alerts=("SluiceLate",),
        ),
        Panel(
            "Delay of the watermarks",
            {f"time() - sluice_watermark_timestamp_seconds{WHERE}": "{{pipeline}} {{stream}}"},
            "s",
            "Windows over event time fire when the watermark has passed their end.",
        ),
    ],
    "Operators": [
        Panel(
            "Tuples in and out, by operator",
            {
                rate("sluice_operator_tuples_read_total", "pipeline", "operator"): "{{pipeline}} {{operator}} in",
                rate("sluice_operator_tuples_written_total", "pipeline", "operator"): "{{pipeline}} {{operator}} out",
            },
            "cps",
            "Tuples that each operator received and emitted.",
        ),
        Panel(
            "Windows fired per second",
            {rate("sluice_windows_fired_total", "pipeline", "operator"): "{{pipeline}} {{operator}}"},
            "cps",
            "Firings of windows that were not empty.",
        ),
        Panel(
            "Window partitions",
            {f"sum by (pipeline, operator) (sluice_window_partitions{WHERE})": "{{pipeline}} {{operator}}"},
            "short",
            "Keys with a window in memory. A number that only grows may need a partition eviction.",
            alerts=("SluiceStateGrows",),
        ),
        Panel(
            "Tuples in windows",
            {f"sum by (pipeline, operator) (sluice_window_tuples{WHERE})": "{{pipeline}} {{operator}}"},
            "short",
            "Tuples that the windows contain, whether they are stored or only summarised.",
            alerts=("SluiceStateGrows",),
        ),
        Panel(
            "Empty panes left out",
            {f"sum by (pipeline, operator) (sluice_empty_panes_left_out{WHERE})": "{{pipeline}} {{operator}}"},
            "short",
            "Empty panes without a result, as one watermark completed too many of a key.",
        ),
        Panel(
            "Time until the next firing by the clock",
            {f"(sluice_next_firing_timestamp_seconds{WHERE} > 0) - time()": "{{stage}}"},
            "s",
            "When the clock alone causes the next output. Empty for pipelines without windows that wait for the clock.",
        ),
        Panel(
            "Held back for",
            {f"max by (pipeline, operator) (sluice_held_back_seconds{WHERE})": "{{pipeline}} {{operator}}"},
            "s",
            "For how long an operator has held tuples that it cannot emit; 0 if nothing unusual holds it back.",
            alerts=("SluiceHeldBack",),
        ),
    ],
    "Batches": [
        Panel(
            "Duration of batches",
            quantiles("sluice_batch_duration_seconds"),
            "s",
            "From the start of a batch to its end.",
            limits=(10, 30),
            alerts=("SluiceSlowBatches",),
        ),
        Panel(
            "Duration of the running batch",
            {
                f"max by (pipeline) (sluice_running_batch_seconds{WHERE})": "{{pipeline}} runs for",
                f"min(sluice_running_batch_limit_seconds{WHERE})": "counts as hung after",
            },
            "s",
            "For how long the batch that runs now has been running.",
            alerts=("SluiceBatchHangs", "SluiceStalled"),
        ),
        Panel(
            "Share of time in each phase of Spark",
            {rate("sluice_batch_phase_seconds_sum", "phase"): "{{phase}}"},
            "percentunit",
            "Seconds of each second in Spark's phases: addBatch is the work of the batch, or the rest of it.",
        ),
        Panel(
            "Share of time in each step of the work",
            {rate("sluice_batch_step_seconds_sum", "step"): "{{step}}"},
            "percentunit",
            "Seconds of each second in the steps of the work: read, compute the windows, produce and commit.",
        ),
        Panel(
            "Processor time of each step of the work",
            {rate("sluice_batch_step_cpu_seconds_total", "step"): "{{step}}"},
            "percentunit",
            "Processor seconds of each second in the steps of the work, in the threads that do them.",
        ),
        Panel(
            "Transactions per second",
            {rate("sluice_batches_total"): "committed", rate("sluice_batches_skipped_total"): "found in the ledger"},
            "ops",
            "Batches that were written, and batches that ran again and were already written.",
            alerts=("SluiceBatchesRepeat",),
        ),
        Panel(
            "Duration of transactions",
            quantiles("sluice_transaction_duration_seconds"),
            "s",
            "From the start of a transaction until readers can see its records.",
        ),
        Panel(
            "Latency of records",
            quantiles("sluice_record_latency_seconds"),
            "s",
            "From the timestamp of a batch's oldest record until readers can see the batch.",
        ),
    ],
    "State and memory": [
        Panel(
            "Size of the state",
            {f"sum by (pipeline) (sluice_state_bytes{WHERE})": "{{pipeline}}"},
            "bytes",
            "State of all windows, of all buckets.",
            alerts=("SluiceStateGrows",),
        ),
        Panel(
            "State read and written per second",
            {rate("sluice_state_read_bytes_total"): "read", rate("sluice_state_written_bytes_total"): "written"},
            "Bps",
            "State that is read from the checkpoint and written to it. It is read at starts only.",
        ),
        Panel(
            "Memory by kind of process",
            {
                f"sum by (process) (sluice_memory_bytes{PROCESSES})": "{{process}}",
                f"sum(sluice_memory_limit_bytes{PROCESSES})": "limit",
            },
            "bytes",
            "Memory of the service, of Java and of the Python processes, which all pipelines share.",
            alerts=("SluiceMemory",),
        ),
    ],
    "Store of snapshots": [
        Panel(
            "Written into the store per second",
            {rate("sluice_store_written_bytes_total"): "written"},
            "Bps",
            "Snapshots that were copied into the store of `state:`. Empty without `state:`.",
        ),
        Panel(
            "Whether the store answers",
            {f"min by (pipeline, stage) (sluice_store_up{WHERE})": "{{stage}}"},
            "short",
            "1 if the last use of the store succeeded, otherwise 0.",
            alerts=("SluiceStoreUnreachable",),
        ),
        Panel(
            "Age of what a restore starts from",
            {f"time() - (sluice_restore_timestamp_seconds{WHERE} > 0)": "{{stage}}"},
            "s",
            "Time since the batch after which a restore would read the inputs again.",
            alerts=("SluiceStoreUnreachable",),
        ),
        Panel(
            "Records left before a restore is impossible",
            {f"sluice_restore_margin_records{WHERE}": "{{topic}}/{{topic_partition}}"},
            "short",
            "Records in Kafka before the first one that a restore would read. Below 0 a restore is impossible.",
            alerts=("SluiceRestoreImpossible",),
            signed=True,
        ),
    ],
}
WIDTH, HEIGHT, LOW = 24, 8, 4
#: most panels side by side: titles and legends of narrower ones cannot be read
ABREAST = 3
#: the rows that are open; the others open with a click
OPEN = ("Now", "Streams")
#: the address of the site that `make docs` builds, as deploy/prometheus/prometheus.yml has it; a field of the board
DOCS = "http://localhost:8000"


def board() -> dict[str, Any]:
    return {
        "uid": "sluice",
        "title": "Sluice",
        "tags": ["sluice"],
        "schemaVersion": 39,
        "version": 1,
        "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"},
        "timezone": "browser",
        "editable": True,
        "graphTooltip": 1,
        "templating": {
            "list": [
                {
                    "name": "datasource", "type": "datasource", "label": "Data source", "query": "prometheus",
                    "refresh": 1, "current": {"text": "Prometheus", "value": "prometheus"},
                },
                {
                    "name": "job", "type": "query", "label": "Job", "datasource": SOURCE,
                    "query": {"query": "label_values(sluice_build_info, job)", "refId": "job"},
                    "refresh": 2, "includeAll": True, "multi": True, "current": {"text": "All", "value": "$__all"},
                },
                {
                    "name": "pipeline", "type": "query", "label": "Pipeline", "datasource": SOURCE,
                    "query": {"query": 'label_values(sluice_build_info{job=~"$job"}, pipeline)', "refId": "pipeline"},
                    "refresh": 2, "includeAll": True, "multi": True, "current": {"text": "All", "value": "$__all"},
                },
                {
                    "name": "docs", "type": "textbox", "label": "Documentation", "query": DOCS,
                    "current": {"text": DOCS, "value": DOCS},
                },
            ],
        },
        "panels": list(panels()),
    }  # fmt: skip


def panels() -> Iterator[dict[str, Any]]:
    """The rows, each before its panels; a collapsed row contains them, as Grafana has it."""
    top, number = 0, 0
    for title, row in ROWS.items():
        number += 1
        shown = list(placed(row, number, top + 1))
        collapsed = title not in OPEN
        yield {
            "id": number, "type": "row", "title": title, "collapsed": collapsed, "panels": shown if collapsed else [],
            "gridPos": {"x": 0, "y": top, "w": WIDTH, "h": 1},
        }  # fmt: skip
        yield from () if collapsed else shown
        number += len(row)
        top = shown[-1]["gridPos"]["y"] + shown[-1]["gridPos"]["h"] if not collapsed else top + 1


def placed(row: list[Panel], number: int, top: int) -> Iterator[dict[str, Any]]:
    """The panels of a row in lines of nearly the same length. `number`: that of the row."""
    lines = -(-len(row) // ABREAST)
    for line in range(lines):
        some = row[len(row) * line // lines : len(row) * (line + 1) // lines]
        height = LOW if some[0].kind == "stat" else HEIGHT
        for place, panel in enumerate(some):
            number += 1
            width = WIDTH // len(some)
            yield drawn(panel, number, {"x": place * width, "y": top, "w": width, "h": height})
        top += height


def drawn(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": query, "legendFormat": legend or "__auto"}
        for at, (query, legend) in enumerate(panel.queries.items())
    ]
    links = [{"title": alert, "url": f"${{docs}}/alerts.html#{alert.lower()}"} for alert in panel.alerts]
    least = {} if panel.signed else {"min": 0}
    return {
        "id": number, "type": panel.kind, "title": panel.title, "description": panel.description,
        "datasource": SOURCE, "gridPos": place, "targets": targets, "links": links,
        "fieldConfig": {"defaults": {"unit": panel.unit, **least, **thresholds(panel)}, "overrides": []},
        "options": {} if panel.kind == "stat" else {"legend": {"displayMode": "list", "placement": "bottom"}},
    }  # fmt: skip


def thresholds(panel: Panel) -> dict[str, Any]:
    """The colours of a number, or the lines of a diagram."""
    if panel.limits is None:
        return {}
    yellow, red = panel.limits
    steps = [{"color": "green", "value": None}, {"color": "yellow", "value": yellow}, {"color": "red", "value": red}]
    lines = {} if panel.kind == "stat" else {"custom": {"thresholdsStyle": {"mode": "line"}}}
    return {"thresholds": {"mode": "absolute", "steps": steps}, **lines}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(board(), indent=1) + "\n")
