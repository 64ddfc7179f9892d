"""What surrounds rows in the values of records."""
