"""The examples do what README.md and their own comments say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sluice
from sluice.config.load import load
from sluice.files import project_file
from sluice.planning.pipeline_set import Link, links, problems
from sluice.running.service_options import files_in

AVERAGE = project_file("examples/moving_average.yaml")


def test_each_trade_tells_the_weighted_price_of_the_last_three_of_its_symbol():
    """Of A: 3 at 10, 1 at 12, 4 at 11, 5 at 20; the first has left when the last comes."""
    records = sluice.replay(AVERAGE, project_file("examples/moving_average.jsonl"))
    tuples = [record["tuple"] for record in records if "tuple" in record]
    assert tuples == [
        {"symbol": "A", "price": 10.0, "trades": 1},
        {"symbol": "B", "price": 7.0, "trades": 1},
        {"symbol": "A", "price": 42 / 4, "trades": 2},
        {"symbol": "A", "price": 86 / 8, "trades": 3},
        {"symbol": "A", "price": 156 / 10, "trades": 3},
    ]


def test_orders_find_the_payment_that_is_enough_or_are_reported_after_a_minute():
    """o1 is paid with change, o3 before it was ordered; what came for o2 is too little."""
    records = sluice.replay(project_file("examples/payments.yaml"), project_file("examples/payments.jsonl"))
    assert [(r["stream"], *r["tuple"].values()) for r in records if "tuple" in r] == [
        ("paid", "o1", "Ada", 2.0),
        ("paid", "o3", "Cleo", 0.0),
        ("unpaid", "o2", "Ben", 5.0),
    ]


def test_readings_come_out_in_order():
    records = sluice.replay(project_file("examples/in_order.yaml"), project_file("examples/in_order.jsonl"))
    values = [(r["tuple"]["sensor"], r["tuple"]["value"]) for r in records if "tuple" in r]
    assert values == [("a", 20.5), ("a", 21.0), ("a", 21.5), ("a", 22.0), ("b", 7.0)]


def test_a_class_tells_how_long_sensors_were_silent():
    records = sluice.replay(project_file("examples/gaps.yaml"), project_file("examples/gaps.jsonl"))
    assert [tuple(r["tuple"].values()) for r in records if "tuple" in r] == [("a", 5, 5), ("b", 29, 29), ("b", 2, 29)]


def test_the_pipelines_of_the_shop_run_beside_each_other_and_the_second_reads_what_the_first_writes():
    pipelines = {str(path): load(path) for path in files_in(project_file("examples/shop"))}
    assert problems(pipelines) == []
    assert links([*pipelines.values()]) == [Link("orders.minutes", "revenue", "best-minutes")]
    first = project_file("examples/shop/revenue.yaml"), project_file("examples/shop/revenue.jsonl")
    minutes = [record["tuple"] for record in sluice.replay(*first) if "tuple" in record]
    assert [(one["shop"], one["revenue"], one["orders"]) for one in minutes] == [("north", 1100, 2), ("south", 300, 1)]
    events = [{"at": at, "tuple": one} for at, one in enumerate(minutes)]
    best = sluice.replay(project_file("examples/shop/best_minutes.yaml"), events)
    assert [record["tuple"]["shop"] for record in best if "tuple" in record] == ["north"]


# ---- recipes without a text ------------------------------------------------------------------------------------------

MORE = sorted(project_file("examples/more").glob("*.yaml"))


@pytest.mark.parametrize("path", MORE, ids=lambda path: path.stem)
def test_a_recipe_gives_what_is_beside_it(path: Path):
    """NAME.out.jsonl has the outputs of NAME.yaml for NAME.jsonl, as `sluice replay` prints them."""
    expected = [json.loads(line) for line in path.with_suffix(".out.jsonl").read_text().splitlines()]
    assert list(sluice.replay(path, path.with_suffix(".jsonl"))) == expected


def test_the_page_of_recipes_has_a_link_to_each():
    page = project_file("docs/recipes.md").read_text()
    assert [path.name for path in MORE if f"(../examples/more/{path.name})" not in page] == []
