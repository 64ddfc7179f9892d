"""Some of these tests need Spark: they share the fixtures of tests/service."""

from __future__ import annotations

from tests.service.conftest import service

__all__ = ["service"]
