"""PostgreSQL: notifications, and several statements in one round trip."""
