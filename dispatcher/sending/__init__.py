"""Sending: which delivery is next, one attempt, when it is tried again."""
