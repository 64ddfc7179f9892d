"""The streams and the operator of a pipeline for tests of faults: each tuple comes out with the window of its key."""

ONE_WINDOW = """
streams:
  in: {schema: {k: string, v: int64}}
  out: {marks: none}
operators:
  - name: window
    aggregate: in
    window: sliding, count(30), count(1), partitioned
    partition_by: [k]
    aggregate_incomplete_windows: true
    output: {out: {k: Last(k), n: Count(), s: Sum(v)}}
"""
