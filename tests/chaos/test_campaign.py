"""The checker finds what is lost, doubled, out of order; a campaign that cannot fail proves nothing."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import IsolationLevel

from sluice.kafka.embedded_broker import EmbeddedBroker
from tests.chaos.__main__ import READY_S, Campaign, lines_of, look_until, page
from tests.chaos.checker import OpenTransactions, Seen, violations
from tests.chaos.faults import FAULTS, NOT_IN, modes_of
from tests.chaos.flows import CountTumbling, Sent
from tests.chaos.resources import INTERVAL_S, Resources, Sample
from tests.chaos.surroundings import Mode
from tests.recovery.harness.java_memory import java_memory


class Load:
    """What was sent, without brokers."""

    def __init__(self) -> None:
        flow = CountTumbling(random.Random(1))
        flow.size = 2
        rows = [Sent("orders", "a", {"k": "a", "n": number}) for number in range(1, 7)]
        self.sent = {flow: [*rows, Sent("orders", "a", b"{no JSON")]}
        self.extra, self.changes = "orders", 0


GOOD = [{"k": "a", "s": 3, "last": 2}, {"k": "a", "s": 7, "last": 4}, {"k": "a", "s": 11, "last": 6}]


def seen(tuples: list[dict], letters: int = 1, batches: tuple[int, ...] = (0, 1, 2)) -> Seen:
    one = Seen()
    one.tuples["totals", "a"] = tuples
    one.letters[b"{no JSON"] = letters
    one.entries["chaos"] = [{"batch": number, "report": {"written": {}}} for number in batches]
    one.entries["chaos"][-1]["report"]["written"] = {"totals": {"tuple": len(tuples)}}
    return one


def test_what_must_come_is_no_violation():
    assert violations(seen(GOOD), Load()) == []


@pytest.mark.parametrize(
    ("tuples", "words"),
    [
        (GOOD[:2], """lost ['{"k": "a", "last": 6, "s": 11}']"""),
        ([*GOOD, GOOD[2]], """doubled or wrong ['{"k": "a", "last": 6, "s": 11}']"""),
        ([GOOD[1], GOOD[0], GOOD[2]], "out of order from tuple 0 on"),
        ([*GOOD[:2], {"k": "a", "s": 12, "last": 6}], """doubled or wrong ['{"k": "a", "last": 6, "s": 12}']"""),
    ],
    ids=["lost", "doubled", "out of order", "wrong"],
)
def test_a_tuple(tuples, words):
    (violation,) = violations(seen(tuples), Load())
    assert words in violation


@pytest.mark.parametrize("count", [0, 2])
def test_a_dead_letter_comes_once(count):
    (violation,) = violations(seen(GOOD, letters=count), Load())
    assert f"came {count} times, expected 1" in violation


@pytest.mark.parametrize("batches", [(0, 2), (0, 1, 1), (1, 0)])
def test_batches_of_the_ledger_follow_each_other(batches):
    (violation,) = violations(seen(GOOD, batches=batches), Load())
    assert "batches do not follow each other" in violation


def test_the_ledger_counts_what_is_visible():
    one = seen(GOOD)
    one.entries["chaos"][-1]["report"]["written"] = {"totals": {"tuple": 2}}
    (violation,) = violations(one, Load())
    assert violation == "the ledger counts 2 tuples of totals, 3 are visible"


@pytest.mark.parametrize(
    ("numbers", "changes", "right"),
    [
        ([2, 3, 4], 1, True),
        ([1, 2, 5, 6], 3, True),
        ([1, 2, 5, 6], 1, False),
        ([1, 2, 2, 3], 1, False),
        ([2, 1], 3, False),
    ],
    ids=["from the second on", "it was away", "two are lost", "one is doubled", "out of order"],
)
def test_an_operator_that_comes_and_goes(numbers, changes, right):
    load, one = Load(), seen(GOOD)
    load.changes = changes
    one.tuples["extra", "a"] = [{"k": "a", "n": number} for number in numbers]
    one.entries["chaos"][0]["report"]["written"] = {"extra": {"tuple": len(numbers)}}
    assert (violations(one, load) == []) is right


class Admin:
    """Of brokers whose topic has an end and a last stable offset."""

    def __init__(self) -> None:
        self.offsets = {IsolationLevel.READ_COMMITTED: 0, IsolationLevel.READ_UNCOMMITTED: 0}

    def list_offsets(self, asked: dict, *, isolation_level: IsolationLevel, **_: object) -> dict:
        answer = SimpleNamespace(result=lambda: SimpleNamespace(offset=self.offsets[isolation_level]))
        return dict.fromkeys(asked, answer)


@pytest.mark.parametrize(
    ("stable", "ends", "longest"),
    [([7, 9, 9], [9, 9, 9], 0.0), ([7, 7, 7, 9], [9, 9, 9, 9], 20.0), ([7, 8, 8, 8], [9, 9, 9, 9], 20.0)],
    ids=["for a moment", "an open transaction", "two transactions"],
)
def test_how_long_open_transactions_hide_records(stable, ends, longest):
    admin, times = Admin(), iter(range(0, 100, 10))
    watched = OpenTransactions(admin, ["out"], lambda: next(times))
    for committed, end in zip(stable, ends, strict=True):
        admin.offsets = {IsolationLevel.READ_COMMITTED: committed, IsolationLevel.READ_UNCOMMITTED: end}
        watched.look()
    assert watched.longest == longest


# ---- memory and files ------------------------------------------------------------------------------------------------

FLAT = Sample(0.0, 120.0, 210.0, 900.0, 500, 160, 140)


def resources_of(*samples: Sample) -> Resources:
    resources = Resources(list, Path())
    for number, sample in enumerate(samples):
        resources.add(sample._replace(at=number * INTERVAL_S))
    return resources


@pytest.mark.parametrize(
    ("quantity", "growth", "flat"),
    [
        ("java_heap_after_a_collection", 1, True),
        ("java_heap_after_a_collection", 5, False),
        ("python", 5, True),
        ("python", 25, False),
        ("descriptors", 1, True),
        ("descriptors", 10, False),
        ("threads", 4, False),
        ("files", 5, False),
    ],
)
def test_a_quantity_that_grows_with_each_sample(quantity, growth, flat):
    growing = [FLAT._replace(**{quantity: getattr(FLAT, quantity) + number * growth}) for number in range(30)]
    rows = resources_of(*growing).grown()
    assert [row.split("|")[1].split(",")[0].strip() for row in rows] == ([] if flat else [quantity.replace("_", " ")])


def test_a_peak_is_no_growth():
    assert resources_of(*[FLAT] * 14, FLAT._replace(python=4000.0), *[FLAT] * 14).grown() == []


def test_the_table_has_the_growth_an_hour():
    growing = [FLAT._replace(descriptors=500 + number) for number in range(9)]
    assert resources_of(*growing).slopes()[5] == "| descriptors | 501 | 507 | +360 |"


def test_few_samples_say_nothing():
    assert resources_of(FLAT, FLAT._replace(files=10_000)).grown() == []


@pytest.mark.kafka
def test_what_a_java_process_holds_after_a_collection_is_the_same_each_time():
    with EmbeddedBroker() as broker:
        first, second = java_memory(broker.pid), java_memory(broker.pid)
    assert 5e6 < first.live < 500e6
    assert 20e6 < first.beside < 1e9
    assert second.live == pytest.approx(first.live, rel=0.3)


def test_a_process_that_is_no_java_has_no_heap():
    with pytest.raises(OSError, match="No such file"):
        java_memory(os.getpid())


def test_the_documentation_has_the_faults_and_the_growth_as_text():
    faults = ["| fault | times | median | most |", "| --- | --- | --- | --- |",
              "| kill jvm | 1 | 9.0 | 9.0 |", "| kill state | 2 | 0.1 | 0.3 |"]  # fmt: skip
    growth = ["| quantity | first | last | an hour |", "| --- | --- | --- | --- |", "| files | 1 | 2 | +3 |"]
    modes = ["Mode alone: flat", "", *growth, "", "Mode cluster: flat", "", "Too few samples."]
    lines = lines_of("\n".join(["Seed 1: A.", "", *faults, "", *modes]))
    begin = "Times of each fault (and the median of the seconds to the next output, from one on)"
    assert lines[2:] == [
        "Seed 1: A.", "", f"{begin}: kill jvm 1 (9.0), kill state 2.", "", "Mode alone: flat: files 1 and 2.",
        "", "Mode cluster: too few samples.",
    ]  # fmt: skip


# ---- faults ----------------------------------------------------------------------------------------------------------


def test_a_campaign_fails_if_nothing_looks_at_resources_any_more():
    looks, said = iter([None]), list[str]()
    with pytest.raises(StopIteration):
        look_until(threading.Event(), lambda: next(looks), said.append, pause=0.001)
    assert said == ["nothing looks at open transactions and resources any more: StopIteration()"]


def test_each_fault_may_happen_in_one_of_the_modes():
    assert [kind for kind in FAULTS if all(kind in absent for absent in NOT_IN.values())] == []
    assert {name for names in NOT_IN.values() for name in names} <= set(FAULTS)


def test_a_campaign_has_the_modes_in_which_its_faults_may_happen(tmp_path):
    assert modes_of(["kill master", "kill executor"]) == [Mode.CLUSTER]
    assert modes_of(["read-only disk", "kill pool"]) == [Mode.ALONE]
    assert modes_of(FAULTS) == [*Mode]
    assert Campaign(1, 3.0, tmp_path).modes != [*Mode]
    assert sorted(Campaign(1, 20.0, tmp_path).modes) == sorted(Mode)


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.spark
def test_five_minutes_of_random_faults(tmp_path):
    """Without a store, which `make chaos` has; beside other tests, so with three times the bound of a ready service."""
    seed = random.SystemRandom().randrange(10**6)
    result = Campaign(seed, 5.0, tmp_path, with_store=False, ready_s=3 * READY_S).run()
    assert not result.wrong, page(result)
