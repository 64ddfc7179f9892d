"""The examples do what README.md and their own comments say."""

from __future__ import annotations

import re

import service
from service.files import project_file

AVERAGE = project_file("examples/moving_average.yaml")


def test_the_first_pipeline_of_the_readme_is_the_example():
    (block,) = re.findall(
        r"```yaml\n# examples/moving_average.yaml\n(.*?)```", project_file("README.md").read_text(), re.DOTALL
    )
    assert AVERAGE.read_text().endswith(block)


def test_each_trade_tells_the_weighted_price_of_the_last_three_of_its_symbol():
    """Of A: 3 at 10, 1 at 12, 4 at 11, 5 at 20; the first has left when the last comes."""
    records = service.replay(AVERAGE, project_file("examples/moving_average.jsonl"))
    tuples = [record["tuple"] for record in records if "tuple" in record]
    assert tuples == [
        {"symbol": "A", "price": 10.0, "trades": 1},
        {"symbol": "B", "price": 7.0, "trades": 1},
        {"symbol": "A", "price": 42 / 4, "trades": 2},
        {"symbol": "A", "price": 86 / 8, "trades": 3},
        {"symbol": "A", "price": 156 / 10, "trades": 3},
    ]
