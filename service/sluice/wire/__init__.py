"""Converts between the bytes of Kafka records and tuples: formats, marks in headers, dead letters."""
