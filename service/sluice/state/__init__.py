"""The state of a bucket: in memory, as snapshots and as a log."""
