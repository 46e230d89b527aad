"""A slice of one partition: where it ends, its verdicts and tallies, how it is written."""
