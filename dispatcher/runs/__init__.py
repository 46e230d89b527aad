"""Runs: which are due, when they may start, what they contain, and revisions for late usage."""
