import pytest

from sluice.model.spec import Aligned, Count, Delta, Punct, Sliding, Time, Tumbling
from tests.unit.config.pipeline_files import aggregate, loaded

DAY = 86_400 * 10**9
WINDOWS = {
    "tumbling, count(3)": Tumbling(Count(3)),
    "tumbling, time(5)": Tumbling(Time(5_000_000_000)),
    "tumbling, time(1.1)": Tumbling(Time(1_100_000_000)),
    "tumbling, time(1e-9)": Tumbling(Time(1)),
    "tumbling, time(250ms)": Tumbling(Time(250_000_000)),
    "tumbling, time(1.5 h)": Tumbling(Time(5_400_000_000_000)),
    "tumbling, delta(time, 5m)": Tumbling(Delta("time", 300_000_000_000)),
    "tumbling, delta(price, 5m)": Tumbling(Delta("price", 300.0)),
    "tumbling, delta(size, 4)": Tumbling(Delta("size", 4)),
    "tumbling, delta(size, 0)": Tumbling(Delta("size", 0)),
    "tumbling, delta(price, 4)": Tumbling(Delta("price", 4.0)),
    "tumbling, delta(time, 0.3)": Tumbling(Delta("time", 300_000_000)),
    "tumbling, punct()": Tumbling(Punct()),
    "tumbling, time(month)": Tumbling(Time(31 * DAY, Aligned(0, "UTC", months=1))),
    "tumbling, time(quarter)": Tumbling(Time(92 * DAY, Aligned(0, "UTC", months=3))),
    "sliding, count(3), time(year)": Sliding(Count(3), Time(366 * DAY, Aligned(0, "UTC", months=12))),
    "sliding, count(3)": Sliding(Count(3), Count(1)),
    "sliding, time(1d), time(30s)": Sliding(Time(86_400_000_000_000), Time(30_000_000_000)),
    "sliding, count(3), time(2.5)": Sliding(Count(3), Time(2_500_000_000)),
    "sliding, time(60), delta(price, 0.5)": Sliding(Time(60_000_000_000), Delta("price", 0.5)),
    "sliding, delta(size, 9223372036854775807), count(2)": Sliding(Delta("size", 2**63 - 1), Count(2)),
    "  sliding ,count( 3 ),count(2)": Sliding(Count(3), Count(2)),
    "count(2)": Tumbling(Count(2)),
    "count(2), count(1)": Sliding(Count(2), Count(1)),
    "count(3), count(2), sliding": Sliding(Count(3), Count(2)),
}


@pytest.mark.parametrize(("clause", "window"), WINDOWS.items())
def test_clause(clause, window):
    (operator,) = loaded(aggregate(f"'{clause}'")).operators
    assert operator.window == window
    assert type(getattr(operator.window.eviction, "size", None)) is type(getattr(window.eviction, "size", None))


def test_a_period_of_the_calendar_in_a_zone():
    text = aggregate("tumbling, time(month)\n    align: {at: '06:00', zone: Europe/Berlin}")
    (operator,) = loaded(text).operators
    assert operator.window.timer == Time(31 * DAY, Aligned(6 * 3600 * 10**9, "Europe/Berlin", months=1))
    assert operator.window.clause() == "tumbling, time(month)"


CONDITIONS = {
    "tumbling, count(3) or time(5)": Tumbling(Count(3), others=(Time(5_000_000_000),)),
    "count(3) or time(5s)": Tumbling(Count(3), others=(Time(5_000_000_000),)),
    "tumbling, delta(size, 4) or punct() or count(2)": Tumbling(Delta("size", 4), others=(Punct(), Count(2))),
    "tumbling, delta(size, open or price > 1.0 ? 1 : 2)or count(2)": None,
}


@pytest.mark.parametrize(("clause", "window"), CONDITIONS.items())
def test_several_conditions_of_a_tumbling_window(clause, window):
    (operator,) = loaded(aggregate(f"'{clause}'")).operators
    assert isinstance(operator.window, Tumbling)
    assert len(operator.window.policies) == clause.count("or ") - clause.count("open or ") + 1
    assert window is None or operator.window == window
    assert loaded(aggregate(f"'{operator.window.clause()}'")).operators == (operator,)


def test_signs_of_a_condition_inside_of_a_policy_are_no_signs_between_policies():
    text = aggregate("'tumbling, delta(size, (price > 1.0) and open ? 1 : 2) or count(2)'")
    (operator,) = loaded(text).operators
    assert len(operator.window.policies) == 2


def test_partitioned():
    (operator,) = loaded(aggregate("sliding, count(3), partitioned\n    partition_by: [symbol, size % 10]")).operators
    assert operator.window == Sliding(Count(3), Count(1), partitioned=True)
    assert len(operator.partition_by) == 2
