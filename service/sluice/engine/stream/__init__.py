"""What flows between operators: items, the clock, marks, expressions, rejected tuples."""
