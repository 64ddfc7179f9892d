"""A checkpoint seen from outside: what windows hold, and batches that are repeated and compared."""
