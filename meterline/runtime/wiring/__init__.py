"""Wiring: which adapter implements which port."""
