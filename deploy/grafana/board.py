"""Makes the board: `python deploy/grafana/board.py > deploy/grafana/boards/sluice.json`.

A panel is a line here and forty in Grafana's JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

SOURCE = {"type": "prometheus", "uid": "prometheus"}
#: Grafana's own
RATE = "$__rate_interval"
WHERE = '{job=~"$job"}'


class Panel(NamedTuple):
    title: str
    #: query -> legend
    queries: dict[str, str]
    unit: str = "short"
    kind: str = "timeseries"
    description: str = ""


def rate(metric: str, *by: str) -> str:
    total = f"rate({metric}{WHERE}[{RATE}])"
    return f"sum by ({', '.join(by)}) ({total})" if by else f"sum({total})"


def quantile(share: float, metric: str) -> str:
    return f"histogram_quantile({share}, {rate(f'{metric}_bucket', 'le')})"


ROWS: dict[str, list[Panel]] = {
    "Now": [
        Panel("Read", {rate("sluice_records_read_total"): ""}, "reqps", "stat"),
        Panel("Written", {rate("sluice_records_written_total"): ""}, "reqps", "stat"),
        Panel("Lag", {f"sum(sluice_lag_records{WHERE})": ""}, "short", "stat", "Records not read yet."),
        Panel(
            "Dead letters", {f"sum(increase(sluice_dead_letters_total{WHERE}[1h]))": ""}, "short", "stat", "In an hour."
        ),
        Panel("Batch, p99", {quantile(0.99, "sluice_batch_duration_seconds"): ""}, "s", "stat"),
        Panel("Last batch", {f"time() - sluice_last_batch_timestamp_seconds{WHERE}": ""}, "s", "stat", "How long ago."),
    ],
    "Streams": [
        Panel("Records read", {rate("sluice_records_read_total", "stream", "kind"): "{{stream}} {{kind}}"}, "reqps"),
        Panel(
            "Records written", {rate("sluice_records_written_total", "stream", "kind"): "{{stream}} {{kind}}"}, "reqps"
        ),
        Panel(
            "Dead letters", {rate("sluice_dead_letters_total", "stream", "reason"): "{{stream}}: {{reason}}"}, "reqps"
        ),
    ],
    "Topic partitions": [
        Panel("Lag", {f"sum by (topic, topic_partition) (sluice_lag_records{WHERE})": "{{topic}} {{topic_partition}}"}),
        Panel(
            "Offsets per second",
            {rate("sluice_next_offset", "topic", "topic_partition"): "{{topic}} {{topic_partition}}"},
            "reqps",
        ),
        Panel(
            "The clock is behind",
            {f"time() - sluice_clock_timestamp_seconds{WHERE}": "{{stage}}"},
            "s",
            description="While nothing comes it stands until the next window is due.",
        ),
        Panel("Lag in seconds", {f"sluice_lag_seconds{WHERE}": "{{stage}}"}, "s"),
        Panel("Watermarks are behind", {f"time() - sluice_watermark_timestamp_seconds{WHERE}": "{{stream}}"}, "s"),
    ],
    "Operators": [
        Panel(
            "Tuples",
            {
                rate("sluice_operator_tuples_read_total", "operator"): "{{operator}} in",
                rate("sluice_operator_tuples_written_total", "operator"): "{{operator}} out",
            },
            "reqps",
        ),
        Panel("Windows fired", {rate("sluice_windows_fired_total", "operator"): "{{operator}}"}, "reqps"),
        Panel("Window partitions", {f"sum by (operator) (sluice_window_partitions{WHERE})": "{{operator}}"}),
        Panel("Tuples stored", {f"sum by (operator) (sluice_window_tuples{WHERE})": "{{operator}}"}),
        Panel(
            "Next firing in",
            {f"(sluice_next_firing_timestamp_seconds{WHERE} > 0) - time()": "{{stage}}"},
            "s",
            description="When the clock alone causes the next output.",
        ),
    ],
    "Batches": [
        Panel(
            "Duration",
            {
                quantile(0.5, "sluice_batch_duration_seconds"): "p50",
                quantile(0.99, "sluice_batch_duration_seconds"): "p99",
            },
            "s",
        ),
        Panel(
            "Running batch",
            {
                f"max(sluice_running_batch_seconds{WHERE})": "runs for",
                f"min(sluice_running_batch_limit_seconds{WHERE})": "counts as hung after",
            },
            "s",
        ),
        Panel(
            "Phases",
            {f"{rate('sluice_batch_phase_seconds_total', 'phase')}": "{{phase}}"},
            "percentunit",
            description="Seconds in each second.",
        ),
        Panel(
            "Transactions",
            {
                rate("sluice_batches_total"): "committed",
                rate("sluice_batches_skipped_total"): "found in the ledger",
            },
            "ops",
        ),
        Panel(
            "Transaction duration",
            {
                quantile(0.5, "sluice_transaction_duration_seconds"): "p50",
                quantile(0.99, "sluice_transaction_duration_seconds"): "p99",
            },
            "s",
        ),
        Panel(
            "Record latency",
            {
                quantile(0.5, "sluice_record_latency_seconds"): "p50",
                quantile(0.99, "sluice_record_latency_seconds"): "p99",
            },
            "s",
            description="From the timestamp of a batch's oldest record until readers can see the batch.",
        ),
    ],
    "State": [
        Panel("Size", {f"sum(sluice_state_bytes{WHERE})": "held"}, "bytes"),
        Panel(
            "Traffic",
            {
                rate("sluice_state_read_bytes_total"): "read",
                rate("sluice_state_written_bytes_total"): "written",
            },
            "Bps",
        ),
        Panel(
            "Memory",
            {
                f"sum by (process) (sluice_memory_bytes{WHERE})": "{{process}}",
                f"sum(sluice_memory_limit_bytes{WHERE})": "limit",
            },
            "bytes",
        ),
    ],
}
WIDTH, HEIGHT, LOW = 24, 8, 4


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
                    "name": "job", "type": "query", "label": "Job", "datasource": SOURCE,
                    "query": {"query": "label_values(sluice_build_info, job)", "refId": "job"},
                    "refresh": 2, "includeAll": True, "multi": True, "current": {"text": "All", "value": "$__all"},
                },
            ],
        },
        "panels": list(panels()),
    }  # fmt: skip


def panels() -> Iterator[dict[str, Any]]:
    top, number = 0, 0
    for title, row in ROWS.items():
        number += 1
        yield {
            "id": number, "type": "row", "title": title, "collapsed": False, "panels": [],
            "gridPos": {"x": 0, "y": top, "w": WIDTH, "h": 1},
        }  # fmt: skip
        top += 1
        height = LOW if row[0].kind == "stat" else HEIGHT
        width = WIDTH // len(row)
        for place, panel in enumerate(row):
            number += 1
            yield drawn(panel, number, {"x": place * width, "y": top, "w": width, "h": height})
        top += height


def drawn(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": query, "legendFormat": legend or "__auto"}
        for at, (query, legend) in enumerate(panel.queries.items())
    ]
    return {
        "id": number, "type": panel.kind, "title": panel.title, "description": panel.description,
        "datasource": SOURCE, "gridPos": place, "targets": targets,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {} if panel.kind == "stat" else {"legend": {"displayMode": "list", "placement": "bottom"}},
    }  # fmt: skip


if __name__ == "__main__":
    sys.stdout.write(json.dumps(board(), indent=1) + "\n")
