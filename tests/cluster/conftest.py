from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster.bucket_writers import Outputs, local_outputs
from tests.cluster.cluster import Standalone


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """What a test starts ends with the test."""
    with ExitStack() as started:
        yield started


@pytest.fixture
def standalone(stack: ExitStack, tmp_path: Path) -> Standalone:
    """A master and two workers."""
    cluster = Standalone(stack, tmp_path)
    cluster.add_worker()
    cluster.add_worker()
    return cluster


@pytest.fixture(scope="session")
def local(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    """What local mode writes for the records of bucket_writers.py."""
    with ExitStack() as started:
        return local_outputs(started, broker, tmp_path_factory.mktemp("local"))
