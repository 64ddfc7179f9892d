"""Drafts of `sluice init` for topics of a broker, in a service that is killed once (`make test-drafts`: all shapes)."""

from __future__ import annotations

import pytest

from tests.draft.in_service import wrong_in_service
from tests.draft.shapes import shapes

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

#: change events, rows and tombstones, an envelope, missing values, decimals, rows of CSV, lists
NAMES = (
    "debezium-postgres-schema", "debezium-flattened-tombstones", "cloudevents-structured", "four-sensors",
    "shopify-orders", "csv", "broken-records", "otlp-metrics",
)  # fmt: skip


def test_drafts_run_unedited_with_right_results(broker, tmp_path):
    chosen = {name: shape for name, shape in shapes().items() if name in NAMES}
    assert wrong_in_service(broker, tmp_path, chosen) == {name: [] for name in chosen}
