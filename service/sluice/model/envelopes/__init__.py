"""Envelopes: the members around the row in the value of a record."""
