"""HTTP: the operations as an application that runs by itself or inside another one, with pages for people."""

from __future__ import annotations

__all__ = ["web_app"]


def __getattr__(name: str) -> object:
    if name == "web_app":
        from goscheduler.web.app import web_app

        return web_app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
