"""How servers are reached: clients, deadlines, credentials. Job stores, locks, documents and transports share it."""
