"""The kinds of windows: one class a kind, with its clause, its checks and its words (kinds.py has the registry)."""
