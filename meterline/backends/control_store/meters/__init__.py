"""Meters, their revisions and the catalogue."""
