"""Events in API v3: list and search them, trace where an event counted."""
