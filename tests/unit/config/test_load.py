import pytest

from sluice.config.load import check, load
from sluice.model.errors import PipelineError
from sluice.model.expressions import AggregateCall, Attribute, Call, Literal
from sluice.model.spec import Aggregate, Count, Map, Output, Punct, Settings, Sliding, Stream, Time, Tumbling
from sluice.model.types import BOOLEAN, FLOAT64, INT64, STRING, TIMESTAMP, list_of
from tests.unit.config.pipeline_files import SCHEMA, aggregate, loaded

TRADES = (
    ("symbol", STRING),
    ("price", FLOAT64),
    ("size", INT64),
    ("time", TIMESTAMP),
    ("open", BOOLEAN),
    ("bids", list_of(FLOAT64)),
)
PRICE, SIZE, SYMBOL = Attribute("price", FLOAT64), Attribute("size", INT64), Attribute("symbol", STRING)


def test_moving_average():
    pipeline = loaded(f"""\
        pipeline: moving-average
        streams:
          trades:
            topic: trades
            format: json
            schema: {SCHEMA}
          averages: {{topic: trades.average, marks: none, partitions: 3}}
          dead: {{topic: trades.dead}}
        operators:
          - name: average
            aggregate: trades
            window: sliding, time(300.0), count(1), partitioned
            partition_by: [symbol]
            output:
              averages: {{symbol: Last(symbol), price: Average(price), trades: Count()}}
        dead_letters: dead
        """)
    averages = (("symbol", STRING), ("price", FLOAT64), ("trades", INT64))
    assert pipeline.name == "moving-average"
    assert pipeline.streams == {
        "trades": Stream("trades", TRADES, "trades"),
        "averages": Stream("averages", averages, "trades.average", marks="none", partitions=3),
        "dead": Stream("dead", (), "trades.dead"),
    }
    assert pipeline.operators == (
        Aggregate(
            "average",
            "trades",
            Sliding(Time(300_000_000_000), Count(1), partitioned=True),
            (
                Output(
                    "averages",
                    (
                        ("symbol", AggregateCall("Last", (SYMBOL,), STRING)),
                        ("price", AggregateCall("Average", (PRICE,), FLOAT64)),
                        ("trades", AggregateCall("Count", (), INT64)),
                    ),
                ),
            ),
            partition_by=(SYMBOL,),
            aggregate_incomplete_windows=True,
        ),
    )
    assert pipeline.settings == Settings({})
    assert pipeline.dead_letters == "dead"
    assert [stream.name for stream in pipeline.inputs] == ["trades"]
    assert [stream.name for stream in pipeline.outputs] == ["averages"]


def test_map_with_condition_and_unchanged_attributes():
    pipeline = loaded(f"""\
        pipeline: filter
        streams:
          trades: {{topic: trades, schema: {SCHEMA}}}
          large: {{topic: large}}
        operators:
          - name: keep
            map: trades
            where: open and size > 100
            output: [large]
        """)
    condition = Call("and", (Attribute("open", BOOLEAN), Call(">", (SIZE, Literal(100, INT64)), BOOLEAN)), BOOLEAN)
    unchanged = Output("large", tuple((name, Attribute(name, kind)) for name, kind in TRADES))
    assert pipeline.operators == (Map("keep", "trades", (unchanged,), condition),)
    assert pipeline.streams["large"].schema == TRADES


def test_operators_stand_upstream_first_whatever_their_order_in_the_file():
    """A burst ends with a mark, which the next window takes."""
    pipeline = loaded(f"""\
        pipeline: bursts
        streams:
          trades: {{topic: trades, schema: {SCHEMA}}}
          seconds: {{}}
          days: {{topic: days}}
        operators:
          - name: second
            aggregate: seconds
            window: tumbling, punct()
            output: {{days: {{best: Max(price)}}}}
          - name: first
            aggregate: trades
            window: tumbling, time(1)
            output: {{seconds: {{price: Max(price)}}}}
        """)
    assert [operator.name for operator in pipeline.operators] == ["first", "second"]
    assert pipeline.operators[1].window == Tumbling(Punct())
    assert pipeline.streams["seconds"] == Stream("seconds", (("price", FLOAT64),))


def test_one_operator_may_write_several_streams_and_one_stream_have_several_readers():
    pipeline = loaded(f"""\
        pipeline: fan
        streams:
          trades: {{topic: trades, schema: {SCHEMA}}}
          a: {{topic: a}}
          b: {{topic: b}}
          c: {{topic: c}}
        operators:
          - {{name: split, map: trades, output: {{a: {{x: size}}, b: {{y: -size}}}}}}
          - {{name: other, map: trades, where: open, output: [c]}}
        """)
    assert [output.stream for output in pipeline.operators[0].outputs] == ["a", "b"]
    assert [stream.name for stream in pipeline.inputs] == ["trades"]


OUTPUTS = {
    "Sum(size) / Count()": Call(
        "/",
        (
            Call("float64", (AggregateCall("Sum", (SIZE,), INT64),), FLOAT64),
            Call("float64", (AggregateCall("Count", (), INT64),), FLOAT64),
        ),
        FLOAT64,
    ),
    "symbol": AggregateCall("Last", (SYMBOL,), STRING),
    "size * 2": AggregateCall("Last", (Call("*", (SIZE, Literal(2, INT64)), INT64),), INT64),
    "Sum(size) - size": Call("-", (AggregateCall("Sum", (SIZE,), INT64), AggregateCall("Last", (SIZE,), INT64)), INT64),
    "5": Literal(5, INT64),
    "true": Literal(value=True, type=BOOLEAN),
    "1.50": Literal(1.5, FLOAT64),
    "'\"ok\"'": Literal("ok", STRING),
}


@pytest.mark.parametrize(("text", "meaning"), OUTPUTS.items())
def test_output_of_an_aggregate(text, meaning):
    """Attributes outside of aggregation functions are those of the last tuple (A3)."""
    (operator,) = loaded(aggregate(output=f"{{x: {text}}}")).operators
    assert operator.outputs[0].attributes == (("x", meaning),)


@pytest.mark.parametrize(("window", "incomplete"), [
    ("sliding, count(2)", True), ("sliding, delta(size, 2)", True),
    ("sliding, count(2)\n    aggregate_incomplete_windows: false", False), ("tumbling, count(2)", False),
])  # fmt: skip
def test_a_sliding_window_gives_results_before_it_was_full_unless_the_file_says_otherwise(window, incomplete):
    (operator,) = loaded(aggregate(window)).operators
    assert operator.aggregate_incomplete_windows is incomplete


def test_a_stated_schema_of_an_output_may_have_another_order():
    text = aggregate(output="{n: Count(), s: Sum(size)}")
    pipeline = loaded(text.replace("out: {topic: out}", "out: {topic: out, schema: {s: int64, n: int64}}"))
    assert pipeline.streams["out"].schema == (("n", INT64), ("s", INT64))


CAUTIONS = {
    "count(0) in a tumbling window": (aggregate("tumbling, count(0)"), "count(0) ignores every tuple"),
    "count(0) as eviction": (aggregate("sliding, count(0)"), "count(0) as eviction keeps no tuple"),
    "count(0) as trigger": (aggregate("sliding, count(5), count(0)"), "count(0) as trigger never fires"),
    "no kind, one policy": (aggregate("count(5)"), 'taken as "tumbling" (rule W4)'),
    "no kind, two policies": (aggregate("count(5), count(1)"), 'taken as "sliding" (rule W4)'),
    "another order": (aggregate("count(5), tumbling"), 'the usual order is "tumbling, count(5)" (rule W13)'),
    "an early count above that of the window": (
        aggregate("tumbling, count(5)\n    early: count(5)"),
        "count(5) gives no early result: the window is full with 5 tuples",
    ),
    "an early time above that of the window": (
        aggregate("tumbling, time(60)\n    early: time(60)"),
        "time(60) gives no early result: the timer of the window fires by then",
    ),
    "float as key": (
        aggregate("tumbling, count(5), partitioned\n    partition_by: [price]"),
        "a float64 as key: 0.1 + 0.2 is not 0.3, and NaN is not even itself (rule A9)",
    ),
    "a delta that waits": (
        aggregate("sliding, delta(size, 5)\n    aggregate_incomplete_windows: false"),
        "with delta nothing comes out until a tuple leaves, which may never happen (S18)",
    ),
    "dead letters with a key": (
        aggregate(more="dead_letters: dead").replace("  out:", "  dead: {topic: dead, key: {attributes: [k]}}\n  out:"),
        "key has no effect: a dead letter is the rejected record as it was read",
    ),
    "unused stream": (aggregate().replace("  out:", "  other: {}\n  out:"), "no operator reads or writes this stream"),
}


@pytest.mark.parametrize(("text", "caution"), CAUTIONS.values(), ids=CAUTIONS)
def test_legal_but_perhaps_not_meant(text, caution, tmp_path):
    file = tmp_path / "pipeline.yaml"
    file.write_text(text)
    checked = check(file)
    assert checked.problems == ()
    assert checked.pipeline
    (found,) = checked.cautions
    assert caution in str(found)
    assert str(found).startswith(f"{file}:{found.line}: ")


def test_overrides_go_before_the_file():
    text = aggregate(more="kafka: {bootstrap.servers: there, client.id: me}\nclock: records")
    settings = loaded(text, overrides={"kafka": {"bootstrap.servers": "here"}, "checkpoint": "/data"}).settings
    assert settings.kafka == {"bootstrap.servers": "here", "client.id": "me"}
    assert (settings.clock, settings.checkpoint) == ("records", "/data")


def test_a_wrong_override_has_no_line():
    with pytest.raises(PipelineError, match=r"^pipeline.yaml: clock: expected processing or records, got \"event\"$"):
        loaded(aggregate(more="clock: records"), overrides={"clock": "event"})


def test_a_missing_file_is_a_problem(tmp_path):
    with pytest.raises(PipelineError, match="expected a file that can be read"):
        load(tmp_path / "none.yaml")
    assert check(tmp_path / "none.yaml").pipeline is None


def test_each_file_with_problems_lists_them_by_line(tmp_path):
    file = tmp_path / "pipeline.yaml"
    file.write_text(aggregate("slidng, count(1)", more="clock: event\nbuckets: 0"))
    assert [problem.line for problem in check(file).problems] == [8, 10, 11]
