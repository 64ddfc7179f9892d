"""Whatever stands in a file: problems, never a crash."""

import copy
from contextlib import suppress
from pathlib import Path

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.config.load import check_source
from sluice.config.syntax.yaml_reader import Source, read_text
from sluice.model.errors import PipelineError
from sluice.planning.explain_plan import lines, plan

RIGHT = (Path(__file__).parent / "wrong_files.txt").read_text(encoding="utf-8").split("\n\n")[1]
WORDS = [
    "trades", "large", "averages", "dead", "symbol", "price", "all", "int64", "list<list<int64>>", "tumbling, punct()",
    "sliding, count(0), delta(time, 1.5), partitioned", "Sum(size) / Count()", "Last(bids)", "size > 1 ? 'a' : symbol",
    "", "${X}", "🙂", "a" * 300, "9" * 5000, "\0", "\ud800", "'\\ud800'", "${file:/dev/zero}", "${file:\0}",
    "/dev/zero", "(" * 500, "-" * 500 + "1", "list<" * 30, "a" * 30_000, "1e999999999",
]  # fmt: skip
values = st.recursive(
    st.none()
    | st.sampled_from([10**4000, -(2**63) - 1, 2**64])
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(WORDS)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=5,
)


def places(value, path=()):
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from places(inner, (*path, key))


DATA = yaml.safe_load(RIGHT)
PLACES = list(places(DATA))[1:]


def changed(data, path, value):
    """With another value at `path`, if an earlier change has left that place."""
    data = inner = copy.deepcopy(data)
    try:
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value
    except (LookupError, TypeError):
        pass
    return data


@given(st.lists(st.tuples(st.sampled_from(PLACES), values), min_size=1, max_size=3))
@settings(max_examples=300)
def test_wrong_values_are_problems(changes):
    data = DATA
    for path, value in changes:
        data = changed(data, path, value)
    checked = check_source(Source("f", data), {}, None)
    assert (checked.pipeline is None) == bool(checked.problems)
    for problem in map(str, checked.problems):
        assert problem.encode()  # no lone surrogate
        assert len(problem) < 3000
    if checked.pipeline is not None:
        assert "\n".join(lines(checked.pipeline, plan(checked.pipeline))).encode()


@given(
    st.lists(st.tuples(st.integers(0, len(RIGHT)), st.sampled_from([*"{}[],:&*!|>'\"#%@`-? \n\t", "x"])), max_size=4)
)
@settings(max_examples=300)
def test_wrong_characters_are_problems(insertions):
    text = RIGHT
    for place, character in insertions:
        text = text[:place] + character + text[place:]
    with suppress(PipelineError):
        check_source(read_text(text, "f"), {}, None)
