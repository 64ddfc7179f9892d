"""Sluice: windows with punctuation between Kafka topics."""

__version__ = "0.1.0"
