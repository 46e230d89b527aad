"""The audit of slices: recount a slice, report differences, rewrite its rows."""
