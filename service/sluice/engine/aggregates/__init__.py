"""The aggregation functions: which data each keeps of the tuples, and how its result is computed from them."""
