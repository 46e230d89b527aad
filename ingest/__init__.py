"""Events come in: checked, packed, put into the log."""
