"""The checkpoint folder: whose it is, who has it, and Spark's logs of offsets in it."""
