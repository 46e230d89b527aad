"""Disks that are full, that fail, and that lose what was not synced."""
