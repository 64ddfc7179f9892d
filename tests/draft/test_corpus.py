"""Record shapes of public systems, with made-up values: a draft runs as it is, and finds and computes what is right.

corpus/NAME.jsonl has the records as events of a replay, corpus/NAME.yaml the file that is drafted for them, and
corpus/facts.yaml what is known of the shape. `python -m tests.draft.shapes --write` writes the files anew.
"""

from __future__ import annotations

import pytest

from tests.draft.shapes import CORPUS, differences, drafted, shapes

SHAPES = shapes()
#: shape -> why its draft is not right
WRONG: dict[str, str] = {}
#: of 100 shapes, the number whose drafts must be right
RIGHT = 95


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xfail(reason=WRONG[name], strict=True) if name in WRONG else ())
        for name in SHAPES
    ],
)
def test_the_draft_runs_as_it_is_with_right_results(name):
    assert list(differences(SHAPES[name])) == []


@pytest.mark.parametrize("name", [name for name in SHAPES if name not in WRONG])
def test_the_drafted_file(name):
    assert drafted(SHAPES[name]).text == (CORPUS / f"{name}.yaml").read_text(encoding="utf-8")


def test_enough_drafts_are_right():
    assert len(SHAPES) >= 60
    assert 100 * (len(SHAPES) - len(WRONG)) >= RIGHT * len(SHAPES)


def test_the_corpus_has_a_file_of_records_for_each_row_of_the_facts():
    assert sorted(path.stem for path in CORPUS.glob("*.jsonl")) == sorted(SHAPES)
