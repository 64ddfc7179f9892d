"""Puts the simulated files, Kafka clients, threads and clock in the place of the real ones in modules of the product.

The product imports them by a few names: `Path`, `os`, `mmap`, `shutil`; `Producer`, `Consumer`, `AdminClient`; `time`,
`threading`, `ThreadPoolExecutor`, `uuid`. Each of these names in each module gets the simulated object, and back.
"""

from __future__ import annotations

import mmap
import os
import pathlib
import shutil
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from types import ModuleType
from typing import Any

import confluent_kafka
import pyarrow as pa
from confluent_kafka.admin import AdminClient

from sluice.batch import commit, query_plan
from sluice.checkpoint import checkpoint_identity
from sluice.kafka import batch_writer, client, requests
from sluice.kafka.librdkafka import producer_queue
from sluice.model import spreading
from sluice.model.spec import Pipeline
from sluice.spark.lanes import direct_lane  # noqa: F401 - one of the modules
from sluice.state import (
    bucket,
    bucket_memory,
    checkpoint_start,  # noqa: F401 - as above
    restore,  # noqa: F401 - as above
    snapshot_schedule,
    snapshot_uploads,  # noqa: F401 - as above
    snapshots,  # noqa: F401 - as above
)
from sluice.state.server import pool, state_server
from sluice.state.upgrade import state_conversion  # noqa: F401 - as above
from tests.chaos.simulation import simulated_clients as clients
from tests.chaos.simulation import simulated_files as files
from tests.chaos.simulation import threads
from tests.chaos.simulation.processes import connection
from tests.chaos.simulation.scheduler import Process, world

CHECKED_PROPERTIES = client.client_properties


@lru_cache
def _properties(kafka: tuple[tuple[str, str], ...], role: client.Role) -> Mapping[str, object]:
    return CHECKED_PROPERTIES(dict(kafka), role)


def client_properties(kafka: Mapping[str, str], role: client.Role) -> dict[str, object]:
    """As `client.client_properties`, which checks all properties at each request."""
    return dict(_properties(tuple(kafka.items()), role))


#: the floors of the product that are simulated
FLOORS = ("batch", "state", "kafka", "checkpoint", "files", "spark.lanes.direct_lane")
#: a real object -> the simulated one
REPLACED = {
    pathlib.Path: files.Path, os: files.OS, mmap: files.MMAP, shutil: files.SHUTIL,
    confluent_kafka.Producer: clients.Producer, confluent_kafka.Consumer: clients.Consumer,
    AdminClient: clients.AdminClient, confluent_kafka.Message: clients.Message,
    CHECKED_PROPERTIES: client_properties,
    time: threads.TIME, threading: threads.THREADING, ThreadPoolExecutor: threads.Executor, uuid: threads.UUID,
}  # fmt: skip


class OfProcess(MutableMapping[Any, Any]):
    """A global dictionary of a module: each simulated process has its own."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def _own(self) -> dict[Any, Any]:
        own: dict[Any, Any] = world().running.process.memory.setdefault(self._name, {})
        return own

    def __getitem__(self, key: object) -> Any:
        return self._own[key]

    def __setitem__(self, key: object, value: object) -> None:
        self._own[key] = value

    def __delitem__(self, key: object) -> None:
        del self._own[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)


class ByReference:
    """As `pickle`, for plans that go from the service to its state servers: values that no process changes."""

    def __init__(self) -> None:
        self._values: list[object] = []

    def dumps(self, value: object) -> bytes:
        self._values.append(value)
        return str(len(self._values) - 1).encode()

    def loads(self, data: bytes) -> object:
        return self._values[int(data)]


def memoised(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a pipeline with a memory for all schedules, whose pipelines differ in few settings. Its results
    are values that no process changes.
    """
    known: dict[tuple[object, ...], tuple[Pipeline, Any]] = {}

    def call(pipeline: Pipeline, topics: Mapping[str, int] | None = None) -> Any:
        key = id(pipeline.operators), *pipeline.streams, pipeline.settings.buckets, *(topics or {}).items()
        if key not in known:  # the entry keeps the operators, so that no others get their id
            known[key] = pipeline, function(pipeline) if topics is None else function(pipeline, topics)
        return known[key][1]

    return call


#: what is computed once for all schedules of a pipeline
GRAPH, DEFINITION, LAYOUT = map(memoised, (bucket_memory.Graph, checkpoint_identity.definition_of, spreading.layout))


class Background:
    """As `sluice.state.snapshots.Background`: a copy of the process writes what was in memory when it was forked."""

    def __init__(self) -> None:
        self._child: Process | None = None
        self._succeeded = False

    def start(self, work: partial[None]) -> None:
        here, (version, write) = world(), work.args
        image = pa.BufferOutputStream()
        write(image)
        data = image.getvalue().to_pybytes()
        parent = here.running.process
        self._child = child = here.process(f"{parent.name} copy", "copy", parent)
        self._succeeded = False

        def run() -> None:
            with suppress(OSError):  # the disk is full
                work.func(version, lambda sink: sink.write(data))
                self._succeeded = True
            here.kill(child, 0 if self._succeeded else 1)

        here.spawn(child, "write", run)

    @property
    def busy(self) -> bool:
        return self._child is not None

    def ended(self) -> bool | None:
        if self._child is None or self._child.alive:
            return None
        self._child = None
        return self._succeeded

    def stop(self) -> None:
        if self._child is not None:
            world().kill(self._child)
            self._child = None


@lru_cache(1)
def _replacements(_loaded: int) -> list[tuple[ModuleType, str, object]]:
    """The modules of the product, and which of their names get which simulated objects. `_loaded` is the number of all
    modules: to look through them takes a tenth of the time of a schedule.
    """
    names = tuple(f"sluice.{floor}" for floor in FLOORS)
    modules = [module for name, module in sys.modules.items() if name.startswith(names)]
    simulated = {id(real): replacement for real, replacement in REPLACED.items()}
    names_of = ((module, name, id(value)) for module in modules for name, value in vars(module).items())
    return [(module, name, simulated[real]) for module, name, real in names_of if real in simulated]


@contextmanager
def simulated(bounds: query_plan.Bounds, *, eager: bool = False, large: int = 0) -> Iterator[None]:
    """The product works on the simulated world during the block. `bounds`: of the plans of the product. With `eager`, a
    snapshot is due after each batch. `large`: bytes above which a batch is large; 0: the product's bound.
    """
    undo: list[tuple[ModuleType, str, object]] = []

    def put(module: ModuleType, name: str, value: object) -> None:
        undo.append((module, name, getattr(module, name)))
        setattr(module, name, value)

    for module, name, replacement in _replacements(len(sys.modules)):
        put(module, name, replacement)
    time_of_requests: Callable[..., object] = requests.Time
    put(requests, "Time", lambda: time_of_requests(threads.TIME.monotonic, threads.TIME.sleep))
    put(producer_queue, "enqueue", clients.enqueue)
    put(bucket, "Background", Background)
    put(bucket_memory, "Graph", GRAPH)
    put(checkpoint_identity, "definition_of", DEFINITION)
    put(spreading, "layout", LAYOUT)
    by_reference = ByReference()
    put(query_plan, "pickle", by_reference)
    put(state_server, "pickle", by_reference)
    if eager:
        put(snapshot_schedule, "MAX_REPLAY_S", -1.0)
    if large:
        put(commit, "LARGE", large)
    put(pool, "connection", connection)
    put(pool, "reachable", lambda: True)
    put(batch_writer, "_writers", OfProcess("writers"))
    put(query_plan, "BOUNDS", bounds)
    try:
        yield
    finally:
        for module, name, value in reversed(undo):
            setattr(module, name, value)
