"""Runs of a store that serves one process: kept in memory."""
