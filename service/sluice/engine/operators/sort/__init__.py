"""The Sort operator: over windows that fire, and over a sliding window (progressive sort)."""
