"""A slice of one partition: where it ends, what its events add up to, how it is written."""
