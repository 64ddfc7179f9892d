"""The operators of a pipeline (Map, Aggregate, Sort, Join) and their states."""
