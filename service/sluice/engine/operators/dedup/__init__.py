"""The Dedup operator: it emits one tuple of each key and period of time."""
