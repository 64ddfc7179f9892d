"""Data structures that kernels work on: columns of 64-bit words, interned strings, keys, lists, heaps and tables."""
