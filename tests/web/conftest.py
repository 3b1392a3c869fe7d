"""The application on a store with jobs of several kinds, and clients of it."""

from __future__ import annotations

import pytest
from asgi_client import AsgiClient
from operation_fixtures import call, messages, operations, scheduler, source

from goscheduler.ops.access import Role
from goscheduler.ops.tokens import StoreTokens, add_token
from goscheduler.web import web_app

__all__ = ["call", "messages", "operations", "scheduler", "source"]


@pytest.fixture
def app(source):
    """The application with nothing configured: people at this machine may do everything."""
    return web_app(source)


@pytest.fixture
def client(app):
    """Makes requests from this machine."""
    return AsgiClient(app)


@pytest.fixture
def locked(source):
    """The application that only those may use who show a token of the store."""
    return web_app(source, tokens=True, allowed_hosts=["jobs.example"], secret="s" * 32)


@pytest.fixture
def token(source, scheduler):
    """Makes a token."""

    def make(role=Role.VIEWER, name="ann", **more):
        return add_token(StoreTokens(source), name, role, scheduler.clock.now(), **more)[1]

    return make
