"""WHAT windows hold: stored tuples, their summaries, and the contents of a window that fires."""
