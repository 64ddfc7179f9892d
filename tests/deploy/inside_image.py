"""Runs in the image of test_image.py, by its Python, without a network: two days of 2013, as compose plays them.

Arguments: a folder for temporary files, then the entry point of the image, then the arguments of the service.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from confluent_kafka import Consumer, TopicPartition

from sluice.kafka.embedded_broker import EmbeddedBroker

SECONDS = 300


def main(temporary: Path, entrypoint: list[str], arguments: list[str]) -> None:
    # The image has no jars of a broker: test_image.py has put them beside this file.
    os.environ["SLUICE_JARS"] = str(Path(__file__).with_name("jars"))
    with EmbeddedBroker() as broker:
        del os.environ["SLUICE_JARS"]
        kafka = f"--kafka=bootstrap.servers={broker.bootstrap}"
        player = [*entrypoint[:-1], "sluice-demo", "play", kafka, "--days=2", "--all"]
        played = subprocess.run(player, capture_output=True, check=True)
        log = temporary / "service.log"
        with log.open("wb") as output:
            service = subprocess.Popen([*entrypoint, *arguments, kafka, "--http-port=8080"], stderr=output)
        codes = {page: answer(service, page, log) for page in ("healthz", "readyz", "metrics")}
        days = read(broker.bootstrap, "flights.days", 6)
        archives = class_archives()
        service.send_signal(signal.SIGTERM)
        ended = service.wait(30)
        seen = {"played": played.stdout.decode(), "codes": codes, "days": days, "ended": ended, "archives": archives,
                "user": os.getuid(), "kernels": kernels(), "log": log.read_text()}  # fmt: skip
        print(json.dumps(seen))  # noqa: T201


def answer(service: subprocess.Popen[bytes], page: str, log: Path) -> int:
    """The status of a page, once it is 200 or time is up."""
    deadline = time.monotonic() + SECONDS
    while service.poll() is None and time.monotonic() < deadline:
        try:
            with urlopen(f"http://localhost:8080/{page}", timeout=4) as got:
                return int(got.status)
        except URLError:
            time.sleep(0.2)
    return sys.exit(f"no {page}: {log.read_text()[-3000:]}")


def read(bootstrap: str, topic: str, count: int) -> list[dict[str, object]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[dict[str, object]] = []
    deadline = time.monotonic() + SECONDS
    while len(found) < count and time.monotonic() < deadline:
        found += [json.loads(message.value()) for message in consumer.consume(100, 1.0) if message.value()]
    consumer.close()
    return found


def class_archives() -> list[str]:
    """The installed archives of Java classes that a process of this user has mapped."""
    mapped: set[str] = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):  # the process has ended, or belongs to another user
            mapped |= {line.split()[-1] for line in maps.read_text().splitlines() if line.endswith(".jsa")}
    return sorted(name for name in mapped if name.startswith(sys.prefix))


def kernels() -> list[str]:
    """All files of compiled kernels, the installed ones and those in use."""
    folders = [Path(sys.prefix), Path(os.environ["XDG_CACHE_HOME"])]
    return sorted(str(path) for folder in folders for path in folder.rglob("kernels/**/*.code"))


if __name__ == "__main__":
    split = sys.argv.index("--service")
    main(Path(sys.argv[1]), sys.argv[2:split], sys.argv[split + 1 :])
