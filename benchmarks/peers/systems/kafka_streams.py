"""Kafka Streams: a Java program on the DSL where the DSL has the window, and on the Processor API where it does not."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from typing import ClassVar

from benchmarks.peers.system import INSTALLED, PROGRAMS, System, Task
from sluice.jvm.jars import retrieve
from sluice.jvm.java import find_java

JARS, CLASSES = INSTALLED / "kafka-streams-jars", INSTALLED / "kafka-streams-classes"
SOURCE = PROGRAMS / "KafkaStreamsProgram.java"


class KafkaStreams(System):
    settings = (
        "2 stream threads, heap of 2 GB, lz4, RocksDB with changelog topics, Jackson with Blackbird, states in binary; "
        "the DSL for tumbling windows (`suppress` until the window closes) and joins, the Processor API (one value per "
        "key, cached) for the other windows"
    )
    scale: ClassVar = {"slidetime": 1 / 3}

    def __init__(self, processing_guarantee: str = "exactly_once_v2") -> None:
        self._guarantee = processing_guarantee
        exactly_once = processing_guarantee == "exactly_once_v2"
        self.guarantee = "exactly once" if exactly_once else "at least once"
        self.name = "Kafka Streams 4.1" + ("" if exactly_once else ", at least once")

    def install(self) -> None:
        if not JARS.exists():
            retrieve(PROGRAMS / "kafka_streams_ivy.xml", JARS)
        compiled = CLASSES / f"{SOURCE.stem}.class"
        if not compiled.exists() or compiled.stat().st_mtime < SOURCE.stat().st_mtime:
            javac = shutil.which("javac")
            if javac is None:
                raise SystemExit("the program of Kafka Streams needs a JDK: javac is not on the path")
            subprocess.run([javac, "-cp", f"{JARS}/default/*", "-d", str(CLASSES), str(SOURCE)], check=True)

    def command(self, task: Task) -> Sequence[str]:
        properties = [f"processing.guarantee={self._guarantee}"]
        if self._guarantee == "at_least_once":
            # The default of 30 s holds the results of windows back in the cache.
            properties.append("commit.interval.ms=1000")
        java = [find_java(), "-Xmx2g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        return [*java, "-cp", f"{CLASSES}:{JARS}/default/*", SOURCE.stem, *properties]
