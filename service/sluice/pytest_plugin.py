"""Fixtures for pytest, which finds this module by itself where the package is installed (docs/testing.md).

pytest imports the module in every run. So it imports nothing of the package before a fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from sluice.testing import PipelineTest


def factory(request: pytest.FixtureRequest) -> Callable[..., PipelineTest]:
    """Makes a PipelineTest of a pipeline file. A relative path is that from the test's folder, else from the present
    folder. The other arguments are the arguments of `PipelineTest`.
    """
    from sluice.testing import PipelineTest  # noqa: PLC0415 - it imports the engine, which takes a second

    def make(pipeline: Any, **options: Any) -> PipelineTest:  # noqa: ANN401 - the arguments of PipelineTest
        beside = request.path.parent / pipeline if isinstance(pipeline, Path) or _is_name(pipeline) else None
        return PipelineTest(beside if beside is not None and beside.exists() else pipeline, **options)

    return make


sluice_pipeline = pytest.fixture(factory, name="sluice_pipeline")


def _is_name(pipeline: object) -> bool:
    """Whether it is the path of a file and not its text."""
    return isinstance(pipeline, str) and "\n" not in pipeline


@pytest.fixture(scope="session")
def sluice_broker() -> Iterator[str]:
    """`bootstrap.servers` of a Kafka broker, which runs as long as the tests. It needs Java and the broker's jars."""
    from sluice.kafka.embedded_broker import EmbeddedBroker  # noqa: PLC0415 - it imports the Kafka client

    with EmbeddedBroker() as broker:
        yield broker.bootstrap
