"""Runs: the durable record of a firing, and the pure rules for it."""
