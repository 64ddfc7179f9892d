"""The page of metrics: the metrics of each pipeline with the label `pipeline`, and the metrics of the processes.
Each pipeline has a registry of its own (metrics.py), so no pipeline can change the series of another one, and the
series of a pipeline that was removed are gone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sluice.ops.metrics import ABOUT_FILES, ABOUT_PIPELINES, ABOUT_PROCESSES, LABEL
from sluice.ops.pipelines import Pipelines, Role, State
from sluice.processes import descendants

KILOBYTE = 1024
#: the files with the limit of the container, in bytes, of the two versions of Linux's control groups
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def memory_of_processes() -> dict[str, int]:
    """Bytes by kind of process: "service", "java" and "python". Empty on systems other than Linux.

    A page that several processes share counts in each of them by its share (Pss): the Python processes are forks of one
    process.
    """
    sizes: dict[str, int] = {}
    for number in [os.getpid(), *descendants(os.getpid())]:
        with suppress(OSError, ValueError):  # the process may end while its files are read
            process = Path("/proc", str(number))
            name = (process / "comm").read_text().strip()
            kind = "service" if number == os.getpid() else "java" if name == "java" else "python"
            sizes[kind] = sizes.get(kind, 0) + share(process)
    return sizes


def memory_limit(limits: Iterable[Path] = LIMITS) -> int:
    """The bytes that the processes of this container may use; without a limit, the memory of the machine."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    byte_limits = [machine]
    for file in limits:
        with suppress(OSError, ValueError):  # there is no such file, or it says "max"
            byte_limits.append(int(file.read_text()))
    return min(byte_limits)


def share(process: Path) -> int:
    """The proportional share of memory of a process, in bytes. `process` is its folder in /proc."""
    for line in (process / "smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * KILOBYTE
    return 0


class Exposition(Collector):
    """The metrics of all pipelines of a service."""

    def __init__(self, pipelines: Pipelines, memory: Callable[[], Mapping[str, int]] = memory_of_processes) -> None:
        """`memory` gives the bytes by kind of process."""
        self._pipelines, self._memory = pipelines, memory
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._processes = {
            metric.name: Gauge(metric.name, metric.help, metric.labels, registry=self._registry)
            for metric in ABOUT_PROCESSES
        }
        self._processes["sluice_memory_limit_bytes"].set(memory_limit())
        self._registry.register(self)

    def page(self) -> bytes:
        """All metrics in Prometheus' text format."""
        for process, size in self._memory().items():
            self._processes["sluice_memory_bytes"].labels(process).set(size)
        return generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        """Yields nothing: the client library otherwise searches for repeated names, which the tables do not have."""
        return ()

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for member in self._pipelines.members:
            for family in member.metrics.families():
                joined = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                labels = {LABEL: member.name}
                joined.samples += [sample._replace(labels=labels | sample.labels) for sample in family.samples]
        yield from families.values()
        yield from self._about_pipelines()
        yield self._about_files()

    def _about_pipelines(self) -> Iterator[Metric]:
        running, leader, standby, restarts, batch, limit, held_back = ABOUT_PIPELINES
        runs = GaugeMetricFamily(running.name, running.help, labels=[LABEL])
        leads = GaugeMetricFamily(leader.name, leader.help, labels=[LABEL])
        ready = GaugeMetricFamily(standby.name, standby.help, labels=[LABEL])
        restarted = CounterMetricFamily(restarts.name, restarts.help, labels=[LABEL])
        seconds, bound = (GaugeMetricFamily(metric.name, metric.help, labels=[LABEL]) for metric in (batch, limit))
        held = GaugeMetricFamily(held_back.name, held_back.help, labels=[LABEL, *held_back.labels])
        for member in self._pipelines.members:
            runs.add_metric([member.name], float(member.state is State.RUNNING))
            if member.status.role is not Role.ALONE:
                leads.add_metric([member.name], float(member.status.role is Role.LEADER))
            if member.status.role is Role.STANDBY:
                can = member.state is State.STANDBY and not member.status.error
                ready.add_metric([member.name], float(can))
            restarted.add_metric([member.name], member.status.starts - 1)
            for family, value in zip((seconds, bound), member.health.running(), strict=True):
                family.add_metric([member.name], value)
            seconds_of = {entry.operator: entry.seconds for entry in self._pipelines.held_back_of(member)}
            for operator in member.pipeline.operators:
                held.add_metric([member.name, operator.name], seconds_of.get(operator.name, 0.0))
        yield from (runs, leads, ready, restarted, seconds, bound, held)

    def _about_files(self) -> Metric:
        (wrong,) = ABOUT_FILES
        family = GaugeMetricFamily(wrong.name, wrong.help, labels=wrong.labels)
        files = self._pipelines.wrong_files
        for file in {member.status.file for member in self._pipelines.members} | files.keys():
            if file:
                family.add_metric([file], float(file in files))
        return family
