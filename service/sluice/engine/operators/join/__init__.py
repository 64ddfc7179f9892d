"""The Join operator: its kernels, its state and the operator itself."""
