"""A pipeline cut at its exchange topics."""

import pytest

from sluice.config.load import load_text
from sluice.model.errors import PipelineError
from sluice.model.stages import stages

FILE = """
pipeline: p
streams:
  a: {{topic: a, schema: {{k: string, n: int64}}}}
  b: {{topic: b, exchange: {first}}}
  c: {{topic: c, exchange: {second}}}
  d: {{topic: d}}
operators:
  - {{name: one, map: a, output: [b]}}
  - {{name: two, map: b, output: [c]}}
  - {{name: three, map: c, output: [d]}}
"""


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("false", "false", {"p": ["one", "two", "three"]}),
        ("true", "false", {"p": ["one"], "p.two": ["two", "three"]}),
        ("false", "true", {"p": ["one", "two"], "p.three": ["three"]}),
        ("true", "true", {"p": ["one"], "p.two": ["two"], "p.three": ["three"]}),
    ],
)
def test_what_is_linked_inside_the_service_is_one_stage(first: str, second: str, expected: dict[str, list[str]]):
    found = stages(load_text(FILE.format(first=first, second=second), "p.yaml"))
    assert {stage.name: [operator.name for operator in stage.operators] for stage in found} == expected


def test_an_exchange_is_written_by_one_stage_and_read_by_the_next():
    one, two = stages(load_text(FILE.format(first="true", second="false"), "p.yaml"))
    assert [stream.name for stream in one.outputs] == [stream.name for stream in two.inputs] == ["b"]


APART = """
pipeline: p
streams:
  a: {topic: a, schema: {k: string, l: string, sent: timestamp}, record_timestamp: sent}
  b: {topic: b}
  c: {topic: c}
operators:
  - {name: one, aggregate: a, window: "tumbling, count(2), partitioned", partition_by: [k], output: {b: {k: k}}}
  - {name: two, aggregate: a, window: "tumbling, count(2), partitioned", partition_by: [l], output: {c: {l: l}}}
"""


def test_each_stage_that_reads_an_input_has_the_timestamps_of_its_records():
    found = stages(load_text(APART, "p.yaml"))
    assert [[stream.record_timestamp for stream in stage.inputs] for stage in found] == [["sent"], ["sent"]]


BACK = """
pipeline: p
streams:
  a: {topic: a, schema: {k: string, n: int64}}
  large: {topic: large, exchange: true}
  small: {}
  pairs: {topic: pairs}
operators:
  - {name: one, map: a, output: [large, small]}
  - name: two
    join: {left: large, right: small}
    window_left: sliding, count(1)
    window_right: sliding, count(1)
    output: {pairs: {k: left.k}}
"""


def test_no_way_leads_back_into_the_stage_that_writes_an_exchange():
    with pytest.raises(PipelineError, match=r"no cycle between stages \(p.one -> p.one\)"):
        load_text(BACK, "p.yaml")


ONE_INPUT = """
pipeline: shop
streams:
  orders: {topic: orders, schema: {shop: string, customer: string, amount: int64}}
  others: {topic: others, schema: {shop: string}}
  large: {}
  by_shop: {topic: by_shop}
  by_customer: {topic: by_customer}
  again: {topic: again}
  all: {topic: all}
  kept: {topic: kept}
operators:
"""
OPERATORS = {
    "shops": ("orders", "tumbling, count(2), partitioned", ["shop"], "by_shop"),
    "customers": ("orders", "tumbling, count(2), partitioned", ["customer"], "by_customer"),
    "again": ("orders", "sliding, count(2), partitioned", ["shop"], "again"),
    "all": ("orders", "tumbling, count(2)", [], "all"),
    "of_large": ("large", "tumbling, count(2), partitioned", ["customer"], "kept"),
    "elsewhere": ("others", "tumbling, count(2), partitioned", ["shop"], "kept"),
}


def by_key(name: str, of: str, key: str) -> str:
    """An aggregate by this attribute, whose outputs have it as `key`."""
    window = f'window: "tumbling, count(2), partitioned", partition_by: [{key}]'
    return f"{{name: {name}, aggregate: {of}, {window}, output: {{by_{key}: {{key: {key}, n: Count()}}}}}}"


def operator(name: str) -> str:
    """The operator of this name as the file has it."""
    if name in ("keep", "large"):
        return f"{{name: {name}, map: orders, output: [{'kept' if name == 'keep' else name}]}}"
    of, window, key, output = OPERATORS[name]
    by = f"partition_by: {key}, ".replace("'", "") if key else ""
    return f'{{name: {name}, aggregate: {of}, window: "{window}", {by}output: {{{output}: {{n: Count()}}}}}}'


def by_stage(*operators: str, settings: str = "") -> dict[str, list[str]]:
    lines = "\n".join(f"  - {operator(name)}" for name in operators)
    found = stages(load_text(f"{ONE_INPUT}{lines}\n{settings}", "shop.yaml"))
    return {stage.name: [operator.name for operator in stage.operators] for stage in found}


@pytest.mark.parametrize(
    ("operators", "expected"),
    [
        (["shops"], {"shop": ["shops"]}),
        (["shops", "again"], {"shop": ["shops", "again"]}),
        (["shops", "customers"], {"shop": ["shops"], "shop.customers": ["customers"]}),
        (["customers", "shops", "again"], {"shop": ["customers"], "shop.shops": ["shops", "again"]}),
        (["shops", "elsewhere"], {"shop": ["shops", "elsewhere"]}),
        (["shops", "large", "of_large"], {"shop": ["shops"], "shop.large": ["large", "of_large"]}),
    ],
)
def test_each_key_of_one_input_has_a_stage(operators: list[str], expected: dict[str, list[str]]):
    assert by_stage(*operators) == expected


LARGE = {
    "keep": "{name: keep, map: orders, where: amount > 9, output: [large]}",
    "keep_too": "{name: keep_too, map: orders, where: amount > 9, output: [large_too]}",
    "shops": by_key("shops", "large", "shop"),
    "customers": by_key("customers", "large", "customer"),
    "customers_too": by_key("customers", "large_too", "customer"),
    "both": "{name: both, map: [by_shop, by_customer], output: [all]}",
    "of_orders": by_key("shops", "orders", "shop"),
    "also_of_orders": by_key("customers", "orders", "customer"),
}


@pytest.mark.parametrize(
    ("operators", "exchange", "expected"),
    [
        pytest.param(
            ["keep", "shops", "customers"], "false",
            {"shop": ["keep", "shops", "customers"]}, id="a map that both read connects them",
        ),
        pytest.param(
            ["keep", "shops", "keep_too", "customers_too"], "false",
            {"shop": ["keep", "shops"], "shop.keep_too": ["keep_too", "customers"]}, id="not a map for each",
        ),
        pytest.param(
            ["of_orders", "also_of_orders", "both"], "false",
            {"shop": ["shops", "customers", "by_shop+by_customer", "both"]}, id="a reader of both connects them",
        ),
        pytest.param(
            ["of_orders", "also_of_orders", "both"], "true",
            {"shop": ["shops"], "shop.customers": ["customers"], "shop.both": ["by_shop+by_customer", "both"]},
            id="not through exchanges",
        ),
    ],
)  # fmt: skip
def test_operators_that_a_stream_connects_are_in_one_stage(
    operators: list[str], exchange: str, expected: dict[str, list[str]]
):
    text = ONE_INPUT.replace("{topic: by_", f"{{exchange: {exchange}, topic: by_").replace(
        "  large: {}\n", "  large: {}\n  large_too: {}\n"
    )
    lines = "\n".join(f"  - {LARGE[name]}" for name in operators)
    found = stages(load_text(f"{text}{lines}\n", "shop.yaml"))
    assert {stage.name: [operator.name for operator in stage.operators] for stage in found} == expected


def test_an_operator_without_a_key_does_not_cut_a_pipeline():
    """It would need one bucket in any case, and a stage costs a query."""
    assert by_stage("shops", "all") == {"shop": ["shops", "all"]}
    assert by_stage("shops", "keep") == {"shop": ["shops", "keep"]}


def test_what_needs_one_bucket_has_a_stage_beside_those_of_the_keys():
    assert by_stage("all", "shops", "customers") == {
        "shop": ["all"], "shop.shops": ["shops"], "shop.customers": ["customers"],
    }  # fmt: skip


def test_with_one_bucket_there_is_nothing_to_spread():
    assert by_stage("shops", "customers", settings="buckets: 1") == {"shop": ["shops", "customers"]}


def test_a_record_that_two_stages_read_is_reported_by_the_first():
    lines = "\n".join(f"  - {operator(name)}" for name in ("shops", "customers"))
    one, two = stages(load_text(f"{ONE_INPUT}{lines}", "shop.yaml"))
    assert [stage.streams["orders"].reported for stage in (one, two)] == [True, False]
    assert [stage.checkpoint for stage in (one, two)] == ["checkpoints/shop/shop", "checkpoints/shop/shop.customers"]
