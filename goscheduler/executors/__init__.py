"""Executors: run what has fired and report how it ended."""
