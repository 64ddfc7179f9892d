"""The operators of a pipeline and their state."""
