"""Telemetry: metrics for Prometheus, traces by OpenTelemetry."""
