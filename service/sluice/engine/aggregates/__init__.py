"""The aggregation functions: what each keeps of the tuples, and how its result is computed."""
