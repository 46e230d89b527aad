"""Installations that are old before a test or a benchmark begins: `world.py` makes them."""
