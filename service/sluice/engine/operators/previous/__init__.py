"""The operator that runs a map whose outputs read earlier tuples of the same key."""
