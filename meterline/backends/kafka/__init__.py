"""Kafka: the log, its topic, and inbox topics."""
