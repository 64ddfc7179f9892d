"""The formats of records: one module and one row of the table for each."""
