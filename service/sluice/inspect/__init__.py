"""Reads a checkpoint without its service: the content of windows, and batches that are repeated and compared."""
