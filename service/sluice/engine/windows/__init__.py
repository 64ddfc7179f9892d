"""Decides when windows change and fire: policies, timers, and the kernels of all kinds of windows."""
