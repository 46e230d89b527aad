"""The aggregator reads the log and writes usage rows. Each event counts exactly once."""
