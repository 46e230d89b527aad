"""What tests of traces look at: a tracer that keeps its spans, and a collector of OTLP."""
