import json

import jsonschema
import pytest
import yaml

from sluice.config.syntax.file_models.pipeline_models import json_schema
from sluice.files import project_file
from tests.unit.config.pipeline_files import aggregate

FILE = project_file("schemas/pipeline.schema.json")


def test_the_schema_in_the_repository_is_that_of_the_code():
    """Else: python -m sluice.config.syntax.file_models.pipeline_models > schemas/pipeline.schema.json."""
    assert json.loads(FILE.read_text(encoding="utf-8")) == json_schema()


def test_it_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(json_schema())


def test_every_key_is_described():
    for name, definition in {"": json_schema(), **json_schema()["$defs"]}.items():
        for key, value in definition["properties"].items():
            assert value.get("description"), f"{name}.{key}"


def valid(text):
    return jsonschema.Draft202012Validator(json_schema()).is_valid(yaml.safe_load(text))


def test_right_files_are_valid():
    assert valid(aggregate())
    assert valid(aggregate("sliding, time(1.0), partitioned\n    partition_by: [symbol]", more="clock_origin: 0"))
    assert valid((project_file("tests/unit/config/wrong_files.txt")).read_text(encoding="utf-8").split("\n\n")[1])


@pytest.mark.parametrize(
    "text",
    [
        aggregate(more="clok: records"),
        aggregate(more="clock: event"),
        aggregate("5"),
        aggregate("tumbling"),
        aggregate().replace("aggregate:", "join:"),
        aggregate().replace("price: float64", "price: flaot64"),
        aggregate().replace("    window: tumbling, count(2)\n", ""),
    ],
)
def test_editors_see_wrong_files(text):
    assert not valid(text)
