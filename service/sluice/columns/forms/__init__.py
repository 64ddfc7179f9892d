"""How the values of each type stand in columns, one module for a kind of types."""
