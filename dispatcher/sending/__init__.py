"""Sending: which delivery is next and which must wait, one attempt, when it is retried."""
