"""The audit of slices: recount one, tell what differs, write it anew."""
