"""Session windows: when sessions begin, merge and end, what they hold, and their state."""
