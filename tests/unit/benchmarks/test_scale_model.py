from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from benchmarks.plot import Line, svg
from benchmarks.scale import Run
from benchmarks.scale_model import Cluster, Costs, driver_seconds, limit, most, rate, stage_seconds

COSTS = Costs(
    outputs=0.5,
    source=1.0,
    decode=2.0,
    engine=0.5,
    encode=1.0,
    returned=0.2,
    write=0.8,
    broker=1.0,
    compilers=0.0,
    batch=100,
    task=1,
)


def test_the_work_of_tasks_is_divided_among_the_cores_of_all_executors():
    assert COSTS.executors == 4.0
    assert stage_seconds(COSTS, Cluster(1, records=1_000_000)) == 4.0
    assert stage_seconds(COSTS, Cluster(4, cores=2, records=1_000_000)) == 0.5


def test_the_work_of_the_driver_is_not_divided():
    assert COSTS.driver == 0.5
    assert driver_seconds(COSTS, Cluster(1, records=1_000_000)) == pytest.approx(0.1 + 0.002 + 0.5)
    assert driver_seconds(COSTS, Cluster(8, records=1_000_000)) == pytest.approx(0.1 + 0.016 + 0.5)


def test_on_one_machine_the_broker_and_the_executors_share_the_cores():
    assert stage_seconds(COSTS, Cluster(2, records=1_000_000, shared=2)) == 2.5
    assert stage_seconds(COSTS, Cluster(1, records=1_000_000, shared=16)) == 4.0


def test_more_executors_come_near_to_the_rate_that_the_driver_allows():
    rates = [rate(COSTS, Cluster(number)) for number in (1, 2, 4, 8, 16)]
    assert rates == sorted(rates)
    assert rates[-1] < most(COSTS) == pytest.approx(250_000 / (0.002 + 0.125))


def test_a_batch_grows_with_the_cores_unless_its_size_is_given():
    assert [Cluster(2).batch, Cluster(2, cores=4).batch, Cluster(2, records=7).batch] == [500_000, 2_000_000, 7]


@pytest.mark.parametrize(
    ("executors", "costs", "expected"),
    [
        (1, COSTS, "executors"), (64, COSTS, "the driver's writing"),
        (64, replace(COSTS, returned=0.0, write=0.0, task=10), "the driver's planning"),
    ],
)  # fmt: skip
def test_the_limit_is_what_takes_most_of_a_batch(executors, costs, expected):
    assert limit(costs, Cluster(executors)) == expected


def test_the_mean_of_measurements_has_the_digits_of_the_page():
    other = replace(COSTS, outputs=0.5017, source=2.011, batch=101)
    assert Costs.mean([COSTS, other]) == replace(COSTS, outputs=0.501, source=1.51, batch=100)


def test_a_plot_has_a_line_for_each_name_and_a_circle_for_each_measured_point():
    lines = [Line("a < b", [(1, 1000), (64, 1_000_000)], [(2, 5000)]), Line("c", [(1, 10), (64, 20)])]
    root = ET.fromstring(svg("title", ("x", "y"), lines))  # noqa: S314 - the text is our own
    found = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert found.count("polyline") == 2
    assert found.count("circle") == 1
    assert "a < b" in [element.text for element in root.iter()]


def test_equal_distances_of_a_plot_are_equal_factors():
    root = ET.fromstring(svg("title", ("x", "y"), [Line("a", [(1, 10), (4, 100), (16, 1000)])]))  # noqa: S314 - the text is our own
    (line,) = (element for element in root.iter() if element.tag.endswith("polyline"))
    places = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    (x0, y0), (x1, y1), (x2, y2) = places
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert y0 > y1


def test_two_sizes_of_batches_give_what_a_batch_costs_beside_its_records():
    def run(batches, records):
        return Run(records, records, batches, 1.0, {"driver": 0.5 * batches + 2e-6 * records}, 0.0)

    small, large = run(20, 1_000_000), run(4, 1_100_000)
    assert small.of_a_batch(large) == pytest.approx({"driver": 0.5})
    assert large.beside(small.of_a_batch(large)).micro("driver") == pytest.approx(2.0)
