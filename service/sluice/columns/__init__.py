"""Columns of 64-bit words, interned texts, keys, lists, heaps and tables: what kernels are built from."""
