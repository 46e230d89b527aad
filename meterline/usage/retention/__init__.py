"""Retention: which periods of a table are dropped, and which seals are added up."""
