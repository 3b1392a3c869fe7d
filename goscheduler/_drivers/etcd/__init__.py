"""Clients of etcd, and the calls that job stores and locks send through them."""
