"""Job stores: keep jobs, runs, owners and history. Mechanics only; what is decided is decided elsewhere."""
