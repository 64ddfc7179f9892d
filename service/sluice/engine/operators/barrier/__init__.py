"""The operator of a barrier and of a pair: the n-th tuples of several inputs with equal keys."""
