"""Change events: records whose value has a row and what has happened to it (docs/reference/change-events.md)."""
