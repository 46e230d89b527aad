"""The inbox: reads events that producers write to their own Kafka topics, instead of HTTP."""
