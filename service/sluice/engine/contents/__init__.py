"""What windows contain: stored tuples, summaries of tuples, and the contents of windows that fire."""
