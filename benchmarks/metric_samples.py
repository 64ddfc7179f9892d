"""Reads metrics from the text format of Prometheus, and the rates between two readings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

#: name of a series -> its labels (sorted pairs) -> value
Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


def parsed(text: str) -> Samples:
    """The samples of a page of metrics. Raises ValueError if the text is no such page."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


@dataclass(frozen=True, slots=True)
class Reading:
    """The metrics at a time (seconds of a clock that never goes back), and the reading before, if there is one."""

    at: float
    samples: Samples
    before: Reading | None = None

    def values(self, name: str, **labels: str) -> Iterator[tuple[dict[str, str], float]]:
        """The series of this name that have these labels: all labels, and the value."""
        for own, value in self.samples.get(name, {}).items():
            known = dict(own)
            if labels.items() <= known.items():
                yield known, value

    def value(self, name: str, **labels: str) -> float | None:
        """The sum of these series; None if there is none."""
        found = [value for _, value in self.values(name, **labels)]
        return sum(found) if found else None

    def rate(self, name: str, **labels: str) -> float | None:
        """How much these counters grew in a second since the reading before; None if there is none.

        A counter that is smaller than before began anew: the service was started again.
        """
        now = self.value(name, **labels)
        if self.before is None or now is None or self.at <= self.before.at:
            return None
        then = self.before.value(name, **labels) or 0.0
        return (now if now < then else now - then) / (self.at - self.before.at)

    def mean(self, name: str, **labels: str) -> float | None:
        """The mean of a histogram's observations since the reading before; without one, since the service's start."""
        sums, counts = self.value(f"{name}_sum", **labels), self.value(f"{name}_count", **labels)
        if sums is None or counts is None:
            return None
        if self.before is not None:
            earlier = self.before.value(f"{name}_count", **labels) or 0.0
            if earlier < counts:
                sums, counts = sums - (self.before.value(f"{name}_sum", **labels) or 0.0), counts - earlier
        return sums / counts if counts else None

    def labels(self, name: str, label: str, **labels: str) -> list[str]:
        """The values of a label among these series, in order of their first occurrence."""
        return list(dict.fromkeys(known[label] for known, _ in self.values(name, **labels) if label in known))


def known(value: float | None) -> float | None:
    """The value; None if it is no number or 0, which stands for "none" in gauges of times."""
    return value if value and not math.isnan(value) else None
