"""The operators of a pipeline (Map, Union, Aggregate, Sort, Dedup, Join) and their states."""
