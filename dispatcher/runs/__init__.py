"""Runs: which are due, what each says, and what late usage corrects."""
