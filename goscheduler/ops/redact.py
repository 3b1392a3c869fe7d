"""Hides in a view what the caller may not see: arguments, results, payloads and metadata; secrets from everybody."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from goscheduler._urls import masked_text

HIDDEN = "•••"
#: Fields of views that hold data of the user's own.
USERS_OWN = frozenset({"args", "kwargs", "metadata", "result", "payload"})
_SECRET = re.compile(r"pass|secret|token|(?:^|_|-)key|api_?key|auth|cookie|credential", re.IGNORECASE)

#: A hook of the user's: gets the id of the job, the place in the view and the value there; returns what to show.
Redactor = Callable[[str, str, Any], Any]


def redacted(view: Any, see_arguments: bool, hook: Redactor | None = None) -> Any:
    """Return a view, or a list of views, without what is to be hidden."""
    if isinstance(view, list):
        return [redacted(item, see_arguments, hook) for item in view]
    if not isinstance(view, Mapping):
        return view
    subject = str(view.get("job_id") or view.get("id") or "")
    shown: dict[str, Any] = {}
    for name, value in view.items():
        if name not in USERS_OWN:
            shown[name] = redacted(value, see_arguments, hook) if isinstance(value, (list, Mapping)) else value
        elif not value:
            shown[name] = value
        else:
            shown[name] = _without_secrets(subject, name, value, hook) if see_arguments else HIDDEN
    return shown


def _without_secrets(subject: str, path: str, value: Any, hook: Redactor | None) -> Any:
    if isinstance(value, Mapping):
        return {
            key: HIDDEN if _SECRET.search(str(key)) else _without_secrets(subject, f"{path}.{key}", item, hook)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_without_secrets(subject, f"{path}.{number}", item, hook) for number, item in enumerate(value)]
    if hook is not None:
        value = hook(subject, path, value)
    return masked_text(value) if isinstance(value, str) else value
