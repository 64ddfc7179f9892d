"""What can be computed from a pipeline before it runs: its memory per window, and an explanation of its plan."""
