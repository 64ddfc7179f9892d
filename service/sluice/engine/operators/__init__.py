"""The operators of a pipeline (Map, Union, Aggregate, Sort, Dedup, Join, Barrier, Delay) and their states."""
