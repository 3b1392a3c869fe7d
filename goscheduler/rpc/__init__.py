"""gRPC: the service of event-scheduler, and the operations."""
