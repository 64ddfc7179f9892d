"""Aggregates over tables: windows of rows that change in place (docs/reference/change-events.md, EN10 to EN18)."""
