"""WHEN windows change: policies and timers."""
