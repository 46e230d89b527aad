"""The demonstration: every flight that left New York in 2013, metered and reported."""
