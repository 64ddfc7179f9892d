"""A shop whose service shows its page: a pipeline with a window of each kind, and orders from three topic partitions.

`python -m tests.page.shop` draws the pictures of docs/page.md.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from sluice.files import project_file
from sluice.kafka.embedded_broker import EmbeddedBroker
from sluice.kafka.topics import create
from tests.lab.chromium import Browser

FILE = """\
pipeline: shop
kafka: {{bootstrap.servers: "{broker}"}}
streams:
  orders:
    topic: {name}.orders
    schema: {{shop: string, amount: float64, at: timestamp}}
    event_time: {{attribute: at, lag: 5}}
  turnover: {{topic: {name}.turnover}}
  recent: {{topic: {name}.recent}}
  wrong: {{topic: {name}.wrong}}
dead_letters: wrong
operators:
  - name: per_minute
    aggregate: orders
    window: timeInterval, intervalDuration(60), partitioned
    partition_by: [shop]
    output: {{turnover: {{shop: shop, minute: intervalStart(), orders: Count(), amount: Sum(amount)}}}}
  - name: last_three
    aggregate: orders
    window: sliding, count(3), count(1), partitioned
    partition_by: [shop]
    output: {{recent: {{shop: shop, average: Average(amount), newest: Last(amount)}}}}
"""
#: 2024-05-01 10:00:00 UTC, milliseconds
START = 1_714_557_600_000
SHOPS = ("berlin", "lisbon", "oslo")
DRAWN = project_file("docs/pictures")
WINDOWS = "pipelines/shop/windows?key=oslo"
#: name of a picture -> path, width, and whether it is dark
PICTURES = (
    ("page-shop", "", 1280, False), ("page-shop-dark", "", 1280, True), ("page-shop-phone", "", 390, False),
    ("page-windows", WINDOWS, 1280, False), ("page-windows-phone-dark", WINDOWS, 390, True),
)  # fmt: skip
#: seconds until the service has read what was sent
PATIENCE_S = 150


class Shop(NamedTuple):
    """The address of the page, and a function that sends orders."""

    address: str
    broker: str
    name: str

    def send(self, orders: list[tuple[str, float, int]], partition: int) -> None:
        """Orders (shop, amount, second of event time) to a topic partition."""
        self.raw([
            (json.dumps({"shop": shop, "amount": amount, "at": (START + at * 1000) / 1000}), at)
            for shop, amount, at in orders
        ], partition)  # fmt: skip

    def raw(self, values: list[tuple[str, int]], partition: int) -> None:
        """Records with these values and seconds."""
        producer = Producer({"bootstrap.servers": self.broker, "enable.idempotence": True})
        for value, at in values:
            producer.produce(f"{self.name}.orders", value, partition=partition, timestamp=START + at * 1000)
        assert producer.flush(30) == 0

    def api(self, path: str = "") -> Any:
        with urlopen(f"{self.address}api/pipelines/shop{path}", timeout=30) as answer:  # noqa: S310 - an address of this machine
            return json.loads(answer.read())

    def until(self, holds: Any, path: str = "") -> Any:
        """The answer of the API as soon as `holds` is true for it."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            found = self.api(path)
            if holds(found):
                return found
            time.sleep(0.1)
        raise AssertionError(f"it never came to that: {found}")

    def trade(self) -> None:
        """Three minutes of orders. Topic partition 2 is slower than the others, and sends a record that is no JSON."""
        for n in range(170):
            for partition in (0, 1):
                self.send([(SHOPS[n % 3], round(10 + n * 1.7 % 40, 2), n)], partition) if n % 5 == 0 else None
        self.send([(SHOPS[n % 3], 12.5, n) for n in range(0, 80, 10)], 2)
        self.raw([('{"shop": "oslo"', 81), ('{"shop": "oslo", "amount": "much", "at": 1714557682}', 82)], 2)


@contextmanager
def running(broker: str, folder: Path, name: str = "shop", *options: str) -> Iterator[Shop]:
    """The service of the shop, with a port of its own."""
    create({"bootstrap.servers": broker}, NewTopic(f"{name}.orders", 3))
    file = folder / "shop.yaml"
    file.write_text(FILE.format(broker=broker, name=name))
    log = folder / "service.log"
    command = [
        *(sys.executable, "-m", "sluice", "run", str(file), "--http-port", "0", "--buckets", "2"),
        *("--checkpoint", str(folder / "checkpoint"), *options),
    ]
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, cwd=folder) as service:
        try:
            yield Shop(_address(log, service), broker, name)
        finally:
            service.terminate()
            service.wait(30)


def _address(log: Path, service: subprocess.Popen[bytes]) -> str:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and service.poll() is None:
        found = re.search(r"page at (http://\S+/)", log.read_text())
        if found:
            return found[1].replace("localhost", "127.0.0.1")
        time.sleep(0.05)
    raise AssertionError(log.read_text())


def pictures(broker: str, folder: Path, profile: Path) -> None:
    """Draws the pictures of docs/page.md: the page and the windows of a key, as wide as a desk and as a phone."""
    with running(broker, folder) as shop, Browser(profile) as browser:
        shop.trade()
        shop.until(lambda found: found["stages"][0]["buckets"] and not found["unread"])
        for n in range(60):
            shop.send([(SHOPS[n % 3], round(5 + n * 1.3 % 20, 2), 171 + n // 20)], n % 2)
            time.sleep(0.3)
        shop.until(lambda found: len(found.get("turnover", ())) >= 3 and len(found["wrong"]) == 2, "/records")
        for name, path, width, dark in PICTURES:
            browser.size(width, 900, dark=dark)
            browser.open(shop.address + path)
            browser.until(
                f"location.href === {shop.address + path!r} && document.readyState === 'complete' && "
                "!document.body.innerText.includes('are being read')"
            )
            tall = browser.value("Math.ceil(document.querySelector('main').getBoundingClientRect().bottom + scrollY)")
            browser.size(width, int(tall), dark=dark)
            browser.picture(DRAWN / f"{name}.png")


def main() -> None:
    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as profile:
        pictures(broker.bootstrap, Path(folder), Path(profile))


if __name__ == "__main__":
    main()
