"""Events that count nowhere, in API v3."""
