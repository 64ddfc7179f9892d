"""Windowed operators in Python, as the file names them."""

import pytest

from sluice.config.load import load_text
from sluice.model.errors import PipelineError

FILE = """
pipeline: p
streams:
  trades: {{topic: trades, schema: {{symbol: string, price: {price}}}}}
  made: {{topic: made}}
operators:
  - name: own
    custom: trades
    handler: {handler}
    window: {window}
    {more}
    output: [made]
"""
CLASSES = "tests.spec.handler_classes"
EVENTS = (
    "before_insertion, after_insertion, before_eviction, after_eviction, initial_full, trigger, partition_eviction, "
    "pane_close"
)


def loaded(handler="Counter", window="sliding, count(2)", more="", price="int64"):
    name = handler if ":" in handler or "." in handler else f'"{CLASSES}:{handler}"'
    return load_text(FILE.format(handler=name, window=window, more=more, price=price), "file.yaml")


def test_the_stream_has_the_attributes_that_the_class_sends():
    assert [(name, str(kind)) for name, kind in loaded().streams["made"].schema] == [
        ("n", "int64"),
        ("now", "timestamp"),
    ]


WRONG = {
    "no name of a class": (
        {"handler": "gaps.Gaps"},
        'operators[0].handler: expected a Python class as "package.module:Class", got gaps.Gaps',
    ),
    "no such class": (
        {"handler": "Countr"},
        (f"operators[0].handler: expected a subclass of WindowHandler in the module {CLASSES}, got {CLASSES}:Countr "
        "(did you mean Counter?)"),
    ),
    "a class that is no handler": (
        {"handler": "Unrelated"},
        f"operators[0].handler: expected a subclass of WindowHandler in the module {CLASSES}, got {CLASSES}:Unrelated",
    ),
    "no output": (
        {"handler": "NoOutput"},
        ("operators[0].handler: expected a class whose `output` has the attributes that it sends (NoOutput has none), "
        f"got {CLASSES}:NoOutput"),
    ),
    "a misspelt event": (
        {"handler": "Misspelt"},
        (f"operators[0].handler: expected methods for {EVENTS} (Misspelt has after_insert), got {CLASSES}:Misspelt "
        "(did you mean after_insertion?)"),
    ),
    "a type that is none": (
        {"handler": "OddTypes"},
        ("operators[0].handler: expected types in `input` and `output` (OddTypes: x is 'number'), "
        f"got {CLASSES}:OddTypes"),
    ),
    "a method without its arguments": (
        {"handler": "FewArguments"},
        ("operators[0].handler: expected methods with the arguments of WindowHandler's (FewArguments: too many "
        f"positional arguments), got {CLASSES}:FewArguments"),
    ),
    "an attribute of another type": (
        {"handler": "Needy"},
        ("operators[0].handler: expected a stream with the float64 price, which Needy reads (price is int64), "
        f"got {CLASSES}:Needy"),
    ),
    "an attribute that may be null": (
        {"handler": "Needy", "price": "float64?"},
        ("operators[0].handler: expected a stream with the float64 price, which Needy reads (price is float64?; "
        f"price! or price ?: y is a float64, or the class reads float64?), got {CLASSES}:Needy"),
    ),
    "an attribute that is not there": (
        {"handler": "Contents"},
        ("operators[0].handler: expected a stream with the int64 i, which Contents reads (it has no i), "
        f"got {CLASSES}:Contents"),
    ),
    "partition_by without partitioned": (
        {"more": "partition_by: [symbol]"},
        ("operators[0].window: expected partitioned in the window clause, as partition_by is given (rule W19), "
        "got sliding, count(2)"),
    ),
    "event time without one": (
        {"window": "timeInterval, intervalDuration(5)"},
        (
            "operators[0].custom: expected an input with event_time, as the window is a timeInterval (rule W16), "
            "got trades"
        ),
    ),
    "an aggregate's parameter": (
        {"more": "group_by: [symbol]"},
        ("operators[0].group_by: expected one of the keys name, custom, handler, window, partition_by, align, output, "
        "got group_by"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("parts", "message"), WRONG.values(), ids=WRONG)
def test_wrong(parts, message):
    with pytest.raises(PipelineError) as raised:
        loaded(**parts)
    (p,) = raised.value.problems
    hint = f" (did you mean {p.hint}?)" if p.hint else ""
    assert f"{p.path}: expected {p.expected}, got {p.got}{hint}" == message
