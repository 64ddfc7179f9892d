"""The recipe with a model in ONNX stands in the page as it is in examples/onnx; tests/onnx runs it."""

from __future__ import annotations

import re

import pytest

from sluice.config.load import load_text
from sluice.files import project_file

PAGE = project_file("docs/recipes.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```(?:python|yaml)\n# (examples/onnx/\S+)\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize(("name", "text"), BLOCK.findall(PAGE))
def test_the_page_shows_a_part_of_the_file(name: str, text: str):
    assert text in project_file(name).read_text(encoding="utf-8")


def test_the_file_is_right_apart_from_its_class():
    text = project_file("examples/onnx/forecast.yml").read_text(encoding="utf-8")
    assert load_text(text.replace("forecast_model:Forecast", "tests.spec.custom_classes:Range"), "forecast.yaml")
