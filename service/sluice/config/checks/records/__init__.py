"""Checks where the records of a stream have its attributes."""
