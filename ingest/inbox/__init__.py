"""The inbox: events of producers that write to Kafka topics instead of HTTP."""
