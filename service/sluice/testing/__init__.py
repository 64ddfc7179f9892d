"""The test kit: runs pipeline files and single operators in memory, with a clock that the test moves."""

from __future__ import annotations

from sluice.testing.one_operator import (  # noqa: F401 - the tests of the engine use the others
    about_input,
    about_table,
    limited,
    on_stream,
    operator_of,
    pipeline_of,
    run_case,
    schema_of,
)
from sluice.testing.pipeline_test import FINAL, WINDOW, PipelineTest, Watermark

#: what is for users' tests
__all__ = ["FINAL", "WINDOW", "PipelineTest", "Watermark", "run_case"]
