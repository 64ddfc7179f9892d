import pytest

from sluice.config.load import load
from sluice.config.syntax.yaml_reader import read, read_text
from sluice.model.errors import PipelineError


def test_lines_and_texts_as_written():
    source = read_text("# a comment\npipeline: é\nstreams:\n  a: {topic: t,\n      n: 007}\noperators: [1, x]\n", "f")
    assert source.data == {"pipeline": "é", "streams": {"a": {"topic": "t", "n": 7}}, "operators": [1, "x"]}
    assert source.line(("streams", "a", "n")) == 5
    assert source.line(("operators", 1)) == 6
    assert source.line(("streams", "b", "topic")) == 3
    assert source.texts[("streams", "a", "n")] == "007"
    assert source.texts[("operators",)] == "[1, x]"


@pytest.mark.parametrize("text", ["yes", "on", "y", "2013-01-01", "0x1F", "1:30", "=", "0o7", "1_000"])
def test_yaml_makes_nothing_else_of_words(text):
    assert read_text(f"a: {text}", "f").data == {"a": text}


@pytest.mark.parametrize(("text", "value"), [("1", 1), ("-1.5", -1.5), ("1e3", 1000.0), ("true", True), ("", None)])
def test_plain_values(text, value):
    assert read_text(f"a: {text}", "f").data == {"a": value}


def test_keys_are_words():
    assert read_text("{1: a, true: b, null: c, on: d}", "f").data == {"1": "a", "true": "b", "null": "c", "on": "d"}


def test_an_anchor_may_be_used_again():
    assert read_text("{a: &x {y: 1}, b: *x}", "f").data == {"a": {"y": 1}, "b": {"y": 1}}


NOT_READ = {
    "nothing": ("", "a mapping"),
    "a list": ("[1]", "a mapping"),
    "two documents": ("a: 1\n---\nb: 2", "YAML without errors"),
    "an alias of nothing": ("a: *x", "YAML without errors"),
    "an alias inside of itself": ("a: &x [*x]", "no alias inside of its own anchor"),
    "a small file that stands for a huge one": (
        "\n".join(["a0: &a0 [x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9))]),
        "at most 100000 values",
    ),
    "a control character": ("a: \x07", "YAML"),
}


@pytest.mark.parametrize(("text", "expected"), NOT_READ.values(), ids=NOT_READ)
def test_not_read(text, expected):
    with pytest.raises(PipelineError, match=expected):
        read_text(text, "f")


def test_tags_of_python_make_nothing():
    assert read_text("a: !!python/object/apply:os.getcwd []\nb: !!int x", "f").data == {"a": [], "b": "x"}


def test_a_value_that_begins_with_a_tag_is_a_problem_and_stays_whole():
    source = read_text("a: !open and x\nb: ! y\nc: '!z'\nd:\nkafka:\n  password: !secret", "f")
    assert source.data == {"a": "!open and x", "b": "! y", "c": "!z", "d": None, "kafka": {"password": "!secret"}}
    expected = 'expected quotes around a value that begins with "!", got'
    assert [str(problem) for problem in source.problems] == [
        f"f:1: a: {expected} \"!open and x\" (did you mean '!open and x'?)",
        f"f:2: b: {expected} \"! y\" (did you mean '! y'?)",
        f'f:6: kafka.password: {expected} "***"',
    ]


def test_an_expression_that_yaml_cuts_at_a_comma_is_whole_in_an_operator_alone():
    source = read_text("operators: [{where: max(a, b) > 1, map: in}]\nkafka: {sasl.password: ab(c, d}", "f")
    assert source.data["operators"] == [{"where": "max(a, b) > 1", "map": "in"}]
    assert source.data["kafka"] == {"sasl.password": "ab(c", "d": None}
    expected = "quotes around an expression with commas inside of {...}"
    assert list(map(str, source.problems)) == [
        f"f:1: operators[0].where: expected {expected}, got \"max(a, b) > 1\" (did you mean 'max(a, b) > 1'?)"
    ]


@pytest.mark.parametrize(
    "line", ["sasl.password: !abc}", "sasl.password: *abc }", "{a: b, 'sasl.password' : \"abc\" d"]
)
def test_a_line_that_is_no_yaml_is_shown_without_its_password(line):
    with pytest.raises(PipelineError) as raised:
        read_text(f"kafka: {{\n  {line}\n", "f")
    assert "abc" not in str(raised.value)
    assert "***" in str(raised.value)


def test_a_list_as_key_is_a_problem():
    assert [str(p) for p in read_text("[a, b]: 1", "f").problems] == ['f:1: expected a word as key, got "[a, b]"']


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "f").write_bytes(b"pipeline: \xff")
    with pytest.raises(PipelineError, match='expected text in UTF-8, got "byte 0xff at 10"'):
        load(tmp_path / "f")


def test_a_byte_order_mark_is_no_text(tmp_path):
    (tmp_path / "f").write_bytes(b"\xef\xbb\xbfa: 1")
    assert read(tmp_path / "f").data == {"a": 1}
