"""A pipeline as immutable values: specs, types, typed expressions, errors, and what follows from a pipeline alone."""
