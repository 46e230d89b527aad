"""Settings: the fields, and how they are read and checked."""
