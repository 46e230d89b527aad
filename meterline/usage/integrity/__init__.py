"""Whether the usage store still holds what was counted into it."""
