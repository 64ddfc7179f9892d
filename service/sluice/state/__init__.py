"""The state of a bucket: in the memory of its state server, and in the checkpoint as snapshots and a log."""
