"""The program of docs/formats.md that sends dead letters again, with a cluster of librdkafka's mock brokers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Consumer, Producer

from sluice.files import project_file

PAGE = project_file("docs/formats.md").read_text(encoding="utf-8")
HEADERS = {
    "trace": "t1",
    "sluice-reason": "wrong type: amount",
    "sluice-topic": "orders",
    "sluice-partition": "0",
    "sluice-offset": "4",
    "sluice-timestamp": "1700000000123",
}


def test_the_program_sends_original_records_again_once(tmp_path: Path):
    cluster = Producer({"bootstrap.servers": "none:1", "test.mock.num.brokers": 1})
    (broker,) = cluster.list_topics(timeout=10).brokers.values()
    address = f"{broker.host}:{broker.port}"
    producer = Producer({"bootstrap.servers": address})
    producer.produce("orders", b"the first", b"a", timestamp=1_600_000_000_000)
    for value, more in [
        (b"whole", {}),
        (b"late", {"sluice-reason": "late: 5 s"}),
        (b"tuple of an operator", {"sluice-value": "tuple"}),
        (b"truncated", {"sluice-truncated": "2000000"}),
    ]:
        producer.produce("orders.dead", value, b"a", headers=HEADERS | more)
    assert producer.flush(10) == 0
    (program,) = re.findall(r"```python\n(# python resend.py.*?)```", PAGE, re.DOTALL)
    (tmp_path / "resend.py").write_text(program.replace("poll(10)", "poll(5)"))  # seconds until it ends
    for _ in range(2):
        subprocess.run([sys.executable, "resend.py", address, "orders.dead"], cwd=tmp_path, check=True, timeout=60)
    sent = records(address, "orders")
    assert sorted(sent) == [
        (b"the first", b"a", 1_600_000_000_000, []),
        (b"whole", b"a", 1_700_000_000_123, [("trace", b"t1")]),
    ]


def records(address: str, topic: str) -> list[tuple[bytes, bytes, int, list[tuple[str, bytes]]]]:
    """All records of the topic: value, key, timestamp, headers."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "test", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read = []
    while record := consumer.poll(5):
        assert not record.error()
        read.append((record.value(), record.key(), record.timestamp()[1], record.headers() or []))
    consumer.close()
    return read
