"""The window engine: a pure function of state and events (graph.py)."""
