"""The data between operators: items, the operator clock, marks, watermarks, scalar expressions, rejected tuples."""
