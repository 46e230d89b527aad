"""`meterline doctor`: what of a set-up does not work, and what to do."""
