"""Settings: what can be set, and how it is read and checked."""
