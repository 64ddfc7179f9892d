"""Schemas of Protocol Buffers: files, messages and enums, and how their fields fit attributes."""
