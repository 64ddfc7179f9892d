"""A service whose asOf join waits for a topic partition that is silent: the verdict, wherever an operator looks."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from sluice.kafka.embedded_broker import free_ports
from sluice.kafka.topics import create
from sluice.processes import ChildProcess

#: seconds that anything may take
PATIENCE = 200
#: 2024-05-01 10:00:00 UTC, seconds
START = 1_714_557_600
#: the clock follows the records, so the silence lasts as long as their timestamps say
PIPELINE = """
pipeline: desk
clock: records
buckets: 2
checkpoint: {folder}/checkpoint
kafka: {{bootstrap.servers: "{broker}"}}
streams:
  trades: {{topic: held.trades, schema: {{sym: string, t: timestamp}}, event_time: {{attribute: t, lag: 1}}}}
  quotes:
    topic: held.quotes
    schema: {{sym: string, bid: float64, t: timestamp}}
    event_time: {{attribute: t, lag: 1}}
  rates: {{topic: held.rates}}
operators:
  - name: rate
    join: {{left: trades, right: quotes}}
    window: asOf
    equality_left: [sym]
    equality_right: [sym]
    output: {{rates: {{sym: left.sym, bid: right.bid}}}}
"""
VERDICT = "`rate` cannot fire: topic partition 1 of quotes has been silent for 3 min; add `idle_after`"


@pytest.mark.kafka
@pytest.mark.spark
def test_a_silent_topic_partition_of_an_as_of_join_is_named_everywhere(broker: str, tmp_path: Path):
    (tmp_path / "desk.yaml").write_text(PIPELINE.format(folder=tmp_path, broker=broker))
    create({"bootstrap.servers": broker}, NewTopic("held.trades", 1), NewTopic("held.quotes", 2))
    producer = Producer({"bootstrap.servers": broker, "enable.idempotence": True})

    def send(topic: str, partition: int, second: int) -> None:
        value = json.dumps({"sym": "a", "bid": 1.0, "t": START + second})
        producer.produce(f"held.{topic}", value, partition=partition, timestamp=(START + second) * 1000)

    send("quotes", 1, 0)
    for second in range(2, 182, 2):
        send("trades", 0, second)
        send("quotes", 0, second)
    assert producer.flush(30) == 0
    (port,) = free_ports(1)
    log = tmp_path / "log"
    command = [sys.executable, "-m", "sluice", "run", str(tmp_path / "desk.yaml"), "--http-port", str(port)]
    running = ChildProcess(command, folder=tmp_path / "process", log=log)
    address = f"http://127.0.0.1:{port}"
    try:
        assert _until(lambda text: VERDICT in text, f"{address}/readyz") == f"{VERDICT}\n"
        metrics = _until(lambda text: "sluice_held_back_seconds" in text, f"{address}/metrics")
        assert 'sluice_held_back_seconds{operator="rate",pipeline="desk"} 180.0' in metrics
        assert 'sluice_window_tuples{operator="rate",pipeline="desk"} 181.0' in metrics
        (shown,) = json.loads(_until(lambda text: "held_back" in text, f"{address}/status"))["pipelines"]
        assert shown["held_back"] == [VERDICT]
        page = _until(lambda text: "topic partition 1" in text, f"{address}/")
        assert "running, held back" in page
        send("quotes", 1, 182)
        assert producer.flush(30) == 0
        assert _until(lambda text: text == "ok\n", f"{address}/readyz")
    finally:
        running.terminate(30)


def _until(holds: Callable[[str], bool], address: str) -> str:
    """The answer at this address as soon as `holds` is true for it."""
    end, found = time.monotonic() + PATIENCE, ""
    while time.monotonic() < end:
        try:
            with urlopen(address, timeout=30) as answer:  # noqa: S310 - an address of this machine
                found = answer.read().decode()
            if holds(found):
                return found
        except (URLError, OSError):
            pass  # the port is not open yet, or the service starts
        time.sleep(0.2)
    raise AssertionError(f"it never came to that: {found}")
