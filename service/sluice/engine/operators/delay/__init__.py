"""The operator of a delay and of a throttle: it passes tuples and marks on later, in their order."""
