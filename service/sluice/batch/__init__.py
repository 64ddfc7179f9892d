"""A batch without Spark: routing, order, parts, outputs and the transaction that writes them."""
