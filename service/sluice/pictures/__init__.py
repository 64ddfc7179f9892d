"""Pictures of windows: what a replay does to each window, event by event, as text for terminals and as SVG."""
