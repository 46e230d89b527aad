"""Reports and runs."""
