from pathlib import Path

import pytest

from service.pipeline.errors import PipelineError
from service.pipeline.load import load_text

INTRODUCTION, RIGHT, *CASES = (Path(__file__).parent / "wrong_files.txt").read_text(encoding="utf-8").split("\n\n")


def read_case(text):
    """Name, lines to replace, lines to put there, messages."""
    name, *lines = text.strip().splitlines()
    old = "".join(f"{line[1:]}\n" for line in lines if line.startswith("-"))
    new = "".join(f"{line[1:]}\n" for line in lines if line.startswith("+"))
    return name.removeprefix("# "), old, new, [line for line in lines if line[0] not in "-+"]


def test_the_right_file_is_right():
    assert load_text(RIGHT, "right.yaml").name == "trades"


def test_there_are_enough_of_them():
    assert len(CASES) > 100


@pytest.mark.parametrize(("old", "new", "messages"), [pytest.param(*c[1:], id=c[0]) for c in map(read_case, CASES)])
def test_wrong_file(old, new, messages):
    assert old in f"{RIGHT}\n"
    wrong = f"{RIGHT}\n".replace(old, new, 1)
    with pytest.raises(PipelineError) as raised:
        load_text(wrong, "wrong.yaml", environment={})
    assert [str(problem).removeprefix("wrong.yaml:") for problem in raised.value.problems] == messages
