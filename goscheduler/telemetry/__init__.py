"""Telemetry: what is counted and traced, told to Prometheus, OpenTelemetry and the log."""
