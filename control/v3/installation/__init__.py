"""The whole installation in API v3: status, account and audit."""
