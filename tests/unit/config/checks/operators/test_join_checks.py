"""What the file says about joins and sorts, as the engine gets it."""

from sluice.config.load import load_text
from sluice.model.expressions import Attribute, Call
from sluice.model.spec import Count, Order, Sliding, Time
from sluice.model.types import BOOLEAN, FLOAT64, STRING, TIMESTAMP
from tests.unit.config.test_wrong_files import read_file

JOIN, SORT = load_text(read_file("wrong_joins.txt")[0], "right.yaml").operators


def test_sides():
    left, right = JOIN.left, JOIN.right
    assert JOIN.inputs == (left.stream, right.stream) == ("orders", "payments")
    assert left.window == Sliding(Time(60 * 10**9), partitioned=True)
    assert left.partition_by == left.equality == right.equality == (Attribute("order", STRING),)
    assert right.window == Sliding(Count(0))
    assert (left.outer, right.outer) == (True, False)


def test_defaults():
    assert JOIN.right.default == ("", 0, -1.0, False)
    assert JOIN.left.default == ("", 0, 0.0, 0, ())


def test_expressions_over_both_sides():
    amount, price = Attribute("amount", FLOAT64, "right"), Attribute("price", FLOAT64, "left")
    assert JOIN.match == Call(">=", (amount, price), BOOLEAN)
    assert dict(JOIN.outputs[0].attributes) == {"order": Attribute("order", STRING, "left"), "amount": amount}


def test_all_attributes_of_both_sides():
    """J4: an attribute that both sides have is that of the left side."""
    right, _ = read_file("wrong_joins.txt")
    text = right.replace("      pairs:\n        order: left.order\n        amount: amount\n", "      - pairs\n")
    pipeline = load_text(text, "right.yaml")
    attributes = dict(pipeline.operators[0].outputs[0].attributes)
    assert list(attributes) == ["order", "count", "price", "at", "tags", "amount", "done"]
    assert [a.port for a in attributes.values()] == ["left"] * 5 + ["right"] * 2


def test_order():
    assert SORT.order_by == (
        Order(Attribute("price", FLOAT64), descending=True),
        Order(Attribute("at", TIMESTAMP), descending=False),
    )
    assert SORT.inputs == ("orders",)


def test_a_streams_own_name_may_stand_before_an_attribute():
    """As in SPL."""
    text = read_file("wrong_joins.txt")[0].replace("order_by: {price: desc", "order_by: {orders.price: desc")
    assert load_text(text, "right.yaml").operators[1].order_by == SORT.order_by
