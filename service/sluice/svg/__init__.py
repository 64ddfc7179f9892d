"""SVG for every picture of the project: one canvas with shapes, texts that never cover each other, and colours."""
