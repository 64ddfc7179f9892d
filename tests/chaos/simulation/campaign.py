"""Many schedules, in several processes; and what they found, for `make simulate` and for the planted bugs."""

from __future__ import annotations

import gc
import logging
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context

from tests.chaos.simulation.schedule import Outcome, Setting, Simulation

#: schedules that a process runs before it reports
CHUNK = 10


@dataclass
class Campaign:
    """What the schedules were, and the outcomes of those with a violation."""

    schedules: int = 0
    steps: int = 0
    seconds: float = 0.0
    took: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    failed: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.schedules += 1
        self.steps += outcome.steps
        self.seconds += outcome.seconds
        self.faults.update(outcome.faults)
        self.kinds[outcome.setting.kind] += 1
        if outcome.wrong:
            self.failed.append(outcome)

    def __str__(self) -> str:
        rate = 60 * self.schedules / max(self.took, 0.001)
        return (
            f"{self.schedules:,} schedules in {self.took:.0f} s ({rate:,.0f} a minute), {self.steps:,} operations, "
            f"{self.seconds / 3600:,.1f} simulated hours, {self.faults.total():,} faults of {len(self.faults)} kinds; "
            f"{len(self.failed)} failed"
        )


def outcome_of(seed: int, *, verifies: bool = True, kinds: Collection[str] = ()) -> Outcome:
    """The outcome of a schedule. An error that no service catches is a violation."""
    _collect_garbage(seed)
    simulation = Simulation(seed, verifies=verifies, kinds=kinds)
    try:
        return simulation.run()
    except Exception:  # noqa: BLE001 - whatever it is, it is shown with the seed
        return Outcome(seed, simulation.setting, [traceback.format_exc()[-1500:]])


def _collect_garbage(seed: int) -> None:
    """Frees what some schedules have left, at times that the seeds choose. By itself Python would look again and again
    at all modules and compiled kernels, which takes a tenth of the time of a schedule.
    """
    gc.disable()
    if seed % CHUNK == 0:
        gc.collect()
        gc.freeze()


def run(
    first: int, schedules: int, processes: int = 1, *,
    verifies: bool = True, kinds: Collection[str] = (), stop: bool = True,
) -> Campaign:  # fmt: skip
    """With `stop`, ends soon after the first violation. `verifies` and `kinds` as in `Simulation`."""
    began, campaign = time.perf_counter(), Campaign()
    one = partial(outcome_of, verifies=verifies, kinds=kinds)
    for outcome in _outcomes(one, range(first, first + schedules), processes):
        campaign.add(outcome)
        if stop and campaign.failed:
            break
    gc.unfreeze()
    gc.enable()
    campaign.took = time.perf_counter() - began
    return campaign


def _outcomes(one: Callable[[int], Outcome], seeds: range, processes: int) -> Iterator[Outcome]:
    if processes == 1:
        yield from map(one, seeds)
        return
    with ProcessPoolExecutor(processes, get_context("fork"), initializer=quiet) as pool:
        try:
            yield from pool.map(one, seeds, chunksize=CHUNK)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def quiet() -> None:
    """The product logs each fault; a campaign has thousands."""
    logging.disable(logging.CRITICAL)


def line(outcome: Outcome) -> str:
    head = f"seed {outcome.seed}: {_words(outcome.setting)}; {', '.join(outcome.faults) or 'no fault'}"
    return "\n  ".join([head, *(outcome.wrong or ["nothing is wrong"])])


def _words(setting: Setting) -> str:
    return ", ".join(f"{name} {value}" for name, value in setting._asdict().items())
