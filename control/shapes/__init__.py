"""Members and parameters that several operations share."""
