from pathlib import Path

import pytest

from sluice.config.load import load_text
from sluice.model.errors import PipelineError

FILES = [
    "wrong_files.txt",
    "wrong_joins.txt",
    "wrong_operators.txt",
    "wrong_event_joins.txt",
    "wrong_tables.txt",
    "wrong_feedback.txt",
    "wrong_words.txt",
    "wrong_mistakes.txt",
    "wrong_members.txt",
]


def read_file(name):
    """The right file, and the cases."""
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    _introduction, right, *cases = text.split("\n\n")
    return right, cases


def read_case(text):
    """Name, lines to replace, lines to put there, messages."""
    name, *lines = text.strip().splitlines()
    old = "".join(f"{line[1:]}\n" for line in lines if line.startswith("-"))
    new = "".join(f"{line[1:]}\n" for line in lines if line.startswith("+"))
    return name.removeprefix("# "), old, new, [line for line in lines if line[0] not in "-+"]


def every_case():
    for file in FILES:
        right, cases = read_file(file)
        for name, old, new, messages in map(read_case, cases):
            yield pytest.param(right, old, new, messages, id=name)


@pytest.mark.parametrize("file", FILES)
def test_the_right_file_is_right(file):
    assert load_text(read_file(file)[0], "right.yaml")


def test_there_are_enough_of_them():
    assert len(list(every_case())) > 150


@pytest.mark.parametrize(("right", "old", "new", "messages"), list(every_case()))
def test_wrong_file(right, old, new, messages):
    assert old in f"{right}\n"
    wrong = f"{right}\n".replace(old, new, 1)
    with pytest.raises(PipelineError) as raised:
        load_text(wrong, "wrong.yaml", environment={})
    assert [str(problem).removeprefix("wrong.yaml:") for problem in raised.value.problems] == messages
