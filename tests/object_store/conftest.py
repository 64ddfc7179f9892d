from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.object_store.s3_server import S3Server


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One server for all tests; each uses a prefix of its own."""
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server
