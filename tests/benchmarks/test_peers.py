"""What the outputs of the peers must add up to, compared with a slow calculation, and the tables of the results."""

from collections import defaultdict, deque

import pytest

from benchmarks.peers.measure import Latency, Throughput
from benchmarks.peers.results import Cell, Results, compare
from benchmarks.peers.workload import LAST, SPAN, WORKLOADS, Totals


def records(number, keys):
    return [(i % keys, (i * 7919) % 1000 / 10, i) for i in range(number)]


def totals(windows):
    return Totals(len(windows), (sum(map(len, windows)), sum(map(sum, windows)), sum(map(max, windows))))


def slow(name, number, keys):
    """The windows of the workload, each as a list of values."""
    windows, last = [], defaultdict(deque)
    for key, value, at in records(number, keys):
        kept = last[key]
        kept.append((at, value))
        if name == "count" and len(kept) == LAST:
            windows.append([v for _, v in kept])
            kept.clear()
        elif name == "slide":
            windows.append([v for _, v in kept][-LAST:])
        elif name == "slidetime":
            windows.append([v for t, v in kept if t >= at - SPAN])
    return totals(windows)


@pytest.mark.parametrize(("name", "number", "keys"), [
    ("count", 1_000, 7), ("count", 50, 7), ("slide", 1_000, 3), ("slide", 50, 7), ("slidetime", 12_000, 1000),
])  # fmt: skip
def test_expected_totals_are_those_of_a_slow_calculation(name, number, keys):
    assert slow(name, number, keys).satisfies(WORKLOADS[name].expected(number, keys))


def test_tumbling_windows_of_time_are_counted_with_and_without_the_one_that_stays_open():
    workload, number, keys = WORKLOADS["tumble"], 2 * SPAN, 100
    loaded = number + workload.tail(keys)
    windows = defaultdict(list)
    for key, value, at in records(loaded, keys):
        windows[key, at // SPAN].append(value)
    closed = [window for (_, period), window in windows.items() if period < number // SPAN]
    assert totals(closed).satisfies(workload.expected(number, keys))
    assert totals(list(windows.values())).satisfies(workload.flushed(number, keys))


def test_pairs_of_a_join_are_at_most_ten_seconds_apart():
    number, keys = 13_000, 1_000
    of_key = defaultdict(list)
    for key, _, at in records(number, keys):
        of_key[key].append(at)
    pairs = sum(abs(a - b) <= SPAN for times in of_key.values() for a in times for b in times)
    assert WORKLOADS["join"].expected(number, keys) == Totals(pairs)


@pytest.mark.parametrize(("actual", "right"), [
    (Totals(2, (3, 1.5, 1.0)), True),
    (Totals(2, (3, 1.5 + 1e-9, 1.0)), True),
    (Totals(2, (3, 1.6, 1.0)), False),
    (Totals(1, (3, 1.5, 1.0)), False),
    (Totals(2), False),
])  # fmt: skip
def test_totals_may_differ_by_the_rounding_of_sums_only(actual, right):
    assert bool(actual.satisfies(Totals(2, (3, 1.5, 1.0)))) == right


def throughput(steady, problem=""):
    return Throughput(rate=steady / 2, steady=steady, start=1.0, peak=10**9, cpu=5.0, problem=problem)


def results(sluice, streams):
    return Results("2 cores", [
        Cell("pass-through, 100 keys", "Sluice", sluice), Cell("pass-through, 100 keys", "Kafka Streams 4.1", streams),
    ], ["2026-11-26"])  # fmt: skip


def test_a_cell_whose_outputs_were_wrong_has_no_number():
    found = results([throughput(300_000), throughput(200_000, "lost")], [throughput(100_000)])
    assert "| pass-through, 100 keys | failed | **100** (50) |" in found.sections()["peers"]


def test_a_table_has_the_median_and_the_range_of_the_runs():
    found = results([throughput(1_000 * n) for n in (300, 100, 200)], [throughput(100_000)])
    assert "| pass-through, 100 keys | **200** (100), 100 to 300 | **100** (50) |" in found.sections()["peers"]


def test_runs_are_added_to_the_cell_of_their_row_and_system():
    found = Results("2 cores")
    for steady in (100_000, 300_000):
        found.add(found.of("pass-through, 100 keys", "Sluice"), throughput(steady))
    assert [len(cell.runs) for cell in found.cells] == [2]
    assert len(found.days) == 1


def test_latencies_have_a_table_of_their_own():
    found = Results("2 cores", [Cell("pass-through, 1,000 records/s", "Sluice", [Latency(50.4, 110.0)])])
    assert "| pass-through, 1,000 records/s | 50 / 110 |" in found.sections()["latency"]


@pytest.mark.parametrize(("now", "code"), [(200_000, 0), (185_000, 0), (170_000, 1)])
def test_the_ratio_to_kafka_streams_may_fall_by_a_tenth(now, code, capsys):
    accepted = results([throughput(200_000)], [throughput(100_000)])
    assert compare(results([throughput(now)], [throughput(100_000)]), accepted) == code
    assert ("WORSE" in capsys.readouterr().out) == bool(code)


def test_results_are_the_same_after_they_were_saved(tmp_path):
    before = results([throughput(200_000)], [throughput(100_000)])
    file = tmp_path / "peers" / "results.json"
    before.save(file)
    assert Results.load(file) == before
