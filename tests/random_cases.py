"""`make test-random`: the random tests alone, each with SLUICE_TEST_CASES times its cases, drawn by SLUICE_SEED."""

from __future__ import annotations

import os
import zlib

import pytest
from hypothesis import HealthCheck, seed, settings

FACTOR = float(os.environ["SLUICE_TEST_CASES"])
SEED = os.environ.get("SLUICE_SEED", "1")
#: the attribute of a test that has its settings; hypothesis refuses to decorate a test with settings twice
SETTINGS = "_hypothesis_internal_use_settings"


def pytest_report_header() -> str:
    return f"SLUICE_SEED={SEED}, {FACTOR:g} times the cases"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    random = [item for item in items if hasattr(getattr(item, "obj", None), "hypothesis")]
    # The cases of a parametrized test share one function.
    for name, test in {item.nodeid.partition("[")[0]: item.obj for item in random}.items():  # type: ignore[attr-defined]
        usual = getattr(test, SETTINGS, settings.default)
        more = settings(
            usual, derandomize=False, database=None, max_examples=max(1, round(usual.max_examples * FACTOR)),
            deadline=None, suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        setattr(test, SETTINGS, more)
        seed(zlib.crc32(f"{SEED} {name}".encode()))(test)
    config.hook.pytest_deselected(items=[item for item in items if item not in random])
    items[:] = random
