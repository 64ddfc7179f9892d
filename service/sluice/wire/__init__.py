"""Bytes of Kafka records <-> tuples: formats, marks in headers, dead letters."""
