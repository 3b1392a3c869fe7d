"""Alerts: rules about jobs and processes, and one notice from the whole cluster where one is broken."""
