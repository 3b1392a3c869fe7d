"""What the stores that several processes share have in common."""
