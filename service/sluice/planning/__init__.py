"""What follows from a pipeline before it runs: memory per window, and the explanation of a plan."""
