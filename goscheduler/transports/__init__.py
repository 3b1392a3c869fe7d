"""Transports: what carries a message away when it is due."""
