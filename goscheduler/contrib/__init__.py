"""What joins schedulers to frameworks and servers. Nothing in the package imports it."""
