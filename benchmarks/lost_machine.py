"""`make bench-lost`: how long a service with a large state takes to go on after its machine was lost.

The state is planted in the checkpoint of a service, as `make bench-state` does it. The service runs until its snapshots
are in the store of `state:`, reads further records, and is stopped. Then it is started again twice, each time with
unread records: with its folder, and with an empty one. A start takes from the start of the process to the commit of the
first batch. The log of the start with an empty folder says how long it fetched snapshots and repeated batches.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml

from benchmarks.load import make_topic
from benchmarks.machine import machine
from benchmarks.running import Service, batches, service
from benchmarks.state import pipeline_text, plant, send
from sluice.config.load import load_text
from sluice.kafka.embedded_broker import EmbeddedBroker
from sluice.processes import processors

NAME = "lost"
TOPIC = f"{NAME}-records"
#: long enough for no second snapshot to go to the store
INTERVAL = "1h"
HEAD = (
    "| keys | tuples held | state MB | records since | folder | start s | of which fetch | repeat | rest |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


class Start(NamedTuple):
    """Seconds from the start of the process to its first commit; to fetch snapshots; and to repeat batches."""

    whole: float
    fetch: float
    repeat: float
    state: int
    tuples: int


def measured(bootstrap: str, scratch: Path, options: argparse.Namespace) -> tuple[Start, Start]:
    """The start with the folder, and the start without it."""
    folder, store = scratch / "service", options.state or str(scratch / "store")
    plain = pipeline_text(NAME, options)
    text = plain + yaml.safe_dump({"state": store, "snapshot_interval": INTERVAL, "snapshot_records": 10**12})
    for topic in (TOPIC, f"{NAME}-results"):
        make_topic(bootstrap, topic)
    send(bootstrap, TOPIC, np.zeros(1, np.int64))
    with service(plain, bootstrap, folder) as running:
        batches(running, bootstrap, NAME, 1)
        time.sleep(1)  # until Spark has it in its log, too
    plant(load_text(plain, NAME), folder / "checkpoint", options.buckets, options.keys, options.tuples)
    chance = np.random.default_rng(1)

    def more(count: int) -> None:
        send(bootstrap, TOPIC, chance.integers(0, options.keys, count))

    with service(text, bootstrap, folder) as running:
        await_snapshots(running, options.buckets)
        more(options.since)
        batches(running, bootstrap, NAME, 1 + options.since)
        time.sleep(1)
    more(options.batch)
    read = 1 + options.since + options.batch
    kept = start(text, bootstrap, folder, read)
    shutil.rmtree(folder / "checkpoint")
    more(options.batch)
    return kept, start(text, bootstrap, folder, read + options.batch)


def await_snapshots(running: Service, buckets: int) -> None:
    """Until one snapshot of each bucket is in the store."""
    while running.log.read_text().count("snapshot copied") < buckets:
        running.check()
        time.sleep(0.2)


def start(text: str, bootstrap: str, folder: Path, read: int) -> Start:
    """A start that reads up to record `read`, from its beginning to the commit of its first batch."""
    began = time.time()
    with service(text, bootstrap, folder) as running:
        entry = batches(running, bootstrap, NAME, read)[-1]
        time.sleep(1)
        log = running.log.read_text()
    found = re.search(r"checkpoint restored: .*fetch_s=([0-9.]+) repeat_s=([0-9.]+)", log)
    fetch, repeat = map(float, found.groups()) if found else (0.0, 0.0)
    tuples = entry.report.operators["measured"]["tuples"]
    return Start(entry.at / 1000 - began, fetch, repeat, entry.report.state["held"], tuples)


def row(one: Start, folder: str, options: argparse.Namespace) -> str:
    rest = one.whole - one.fetch - one.repeat
    return (
        f"| {options.keys:,} | {one.tuples:,} | {one.state / 1e6:,.0f} | {options.since:,} | {folder} "
        f"| {one.whole:.1f} | {one.fetch:.1f} | {one.repeat:.1f} | {rest:.1f} |"
    )


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch, EmbeddedBroker(heap="1g") as broker:
        print(f"{machine()}\n\n{HEAD}", flush=True)
        kept, lost = measured(broker.bootstrap, Path(scratch), options)
        print(row(kept, "kept", options), row(lost, "lost", options), sep="\n", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-lost", description=__doc__)
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--tuples", type=int, default=100, help="held by each key")
    parser.add_argument("--since", type=int, default=1_000_000, help="records that are read after the snapshots")
    parser.add_argument("--batch", type=int, default=10_000, help="records")
    parser.add_argument("--buckets", type=int, default=processors())
    parser.add_argument("--state", default="", help="URL of the store; default: a folder")
    parser.add_argument("--scratch", help="folder for the files, which need four times the state")
    parser.set_defaults(window="", durability="process")
    return parser.parse_args()


if __name__ == "__main__":
    main()
