"""Wiring: which adapter stands behind which port."""
