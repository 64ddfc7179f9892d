"""SVG for every picture: one canvas with shapes, texts that never cover each other, and colours for two screens."""
