"""Jobs of APScheduler 3, read from its stores. Nothing is changed there, and nothing that they name is imported."""
