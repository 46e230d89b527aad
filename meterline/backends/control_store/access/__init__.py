"""Keys, subjects and the record of changes."""
