"""A bucket: its input and outputs in a batch, and its state, in the memory of its server and in the checkpoint."""
