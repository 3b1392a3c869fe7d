"""No part of a password reaches an error, a log, a repr or the command line, however badly its URL is written."""

from __future__ import annotations

import logging
import traceback
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from goscheduler._urls import masked, masked_text, secrets_of, without_secrets
from goscheduler.cli.app import app
from goscheduler.errors import InvalidArgument, shown
from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.locks import Lock
from goscheduler.plugins import STORE_URLS, create_plugin, require_clear_login
from goscheduler.schedulers.background import BackgroundScheduler
from goscheduler.testing.clock import ManualClock
from goscheduler.testing.scheduler import ManualScheduler
from goscheduler.transports.registry import create_transport

#: A password in two halves, between which stands what people forget to escape.
HALVES = ("CANA", "RYBIRD")
BETWEEN = ["", "@", "/", ":", "?", "#", "@/", "/=", "&", " ", "%40", "12/34@"]
SCHEMES = [scheme for scheme in STORE_URLS if scheme not in ("sqlite", "oracle", "mssql", "mongodb+srv")]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://me@host", "redis://me@host"),
        ("redis://me:pw@host", "redis://me:***@host"),
        ("redis://:pw@host", "redis://:***@host"),
        ("redis://me:p@w/o:r?d@host:1/0", "redis://me:***@host:1/0"),
        ("zk://host:1/a@b", "zk://host:***@b"),
        ("x://h?a=1&token=t&b=2", "x://h?a=1&token=***&b=2"),
        ("x://h?a=1;pwd=t;b=2&c=3", "x://h?a=1;pwd=***&c=3"),
        ("x://h?p%61ssword=t", "x://h?p%61ssword=***"),
        ("x://h#access_token=t", "x://h#access_token=***"),
        ("x://h?authSource=admin&passfile=/f&sslpassword=s", "x://h?authSource=admin&passfile=/f&sslpassword=***"),
        ("default", "default"),
        ("a:b@c", "a:b@c"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, expected: str) -> None:
    assert masked(url) == expected


@pytest.mark.parametrize(
    "name",
    [
        "password", "passwd", "pwd", "token", "secret", "key", "apikey", "api_key", "access_key", "sslpassword",
        "credential", "credentials", "auth", "auth_data", "signature", "sig", "client_secret", "sentinel_password",
        "authMechanismProperties", "odbc_connect", "PWD", "jwt",
    ],
)  # fmt: skip
def test_a_parameter_that_sounds_like_a_secret_is_hidden(name: str) -> None:
    assert masked(f"x://h/?a=1&{name}=CANARY#x") == f"x://h/?a=1&{name}=***"
    assert secrets_of(f"x://h/?{name}=CANARY&a=1") == ["CANARY"]


def test_a_value_that_an_error_shows_has_its_urls_masked() -> None:
    assert shown("redis://me:p'w d@host") == "'redis://me:***@host'"
    assert shown({"url": "redis://me:pw@host", "to": "me@example.com"}) == (
        "{'url': 'redis://me:***@host', 'to': 'me@example.com'}"
    )
    assert masked_text("no URL: me@host") == "no URL: me@host"


def test_a_text_of_a_driver_is_cleared_of_the_secrets_of_its_url() -> None:
    url = "mongodb://me:p%40w@host/?token=abc"
    assert without_secrets(f"{url} - p@w, abc", url) == "mongodb://me:***@host/?token=*** - ***, ***"
    assert without_secrets("fine", None) == "fine"


@pytest.mark.parametrize("url", ["r://me:1/2@h", "r://me:1?2@h", "r://:1/2=@h", "zk://h:1/a@b", "r://me:1@/2@h"])
def test_a_url_whose_password_has_no_clear_end_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(InvalidArgument, match="it cannot be told where the password ends; write @ as %40") as caught:
        require_clear_login(url)
    assert caught.value.value is None


@pytest.mark.parametrize(
    "url", ["r://h:1/a", "r://me:p@w@h/a", "r://me:pw@h:1/a%40b", "r://h:1?x=a@b", "r:///a@b", "r://h/a@b"]
)
def test_a_url_that_can_be_read_in_one_way_is_taken(url: str) -> None:
    require_clear_login(url)


def test_a_driver_that_ends_the_password_at_the_first_at_gets_one_only() -> None:
    for fine in ("p://me:a/b@h/d?x=a@b", "sqlite:///x@y@z"):
        require_clear_login(fine, first_at=True)
    for unclear in ("p://me:a@b@h/d", "p://me:a@b/c@h", "p://h:1/d?x=a@b"):
        with pytest.raises(InvalidArgument):
            require_clear_login(unclear, first_at=True)


# Everything that can be seen of a URL


def told(action: Any, values: bool = True) -> str:
    """Return all that can be seen of what was done: what it gives, or its error with all causes and values."""
    try:
        return repr(action())
    except Exception as error:
        seen, each = [], error
        while each is not None:
            seen.append(f"{each} {each!r} {getattr(each, 'value', '') if values else ''!r}")
            each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
        return "\n".join([*traceback.format_exception(error), *seen])


def assert_hidden(text: str) -> None:
    assert [half for half in HALVES if half in text] == [], text


@pytest.fixture
def bad_urls(request: pytest.FixtureRequest) -> list[str]:
    scheme, between = request.param
    password = between.join(HALVES)
    logins = [f"{scheme}://me:{password}@127.0.0.1:1/0", f"{scheme}://:{password}@127.0.0.1:1/0"]
    return logins if between == "&" else [*logins, f"{scheme}://127.0.0.1:1/0?token={password}"]


every_bad_url = pytest.mark.parametrize(
    "bad_urls", [(scheme, between) for scheme in [*SCHEMES, "unknown"] for between in BETWEEN], indirect=True
)


@every_bad_url
def test_no_store_shows_a_part_of_a_password(bad_urls: list[str], caplog: pytest.LogCaptureFixture) -> None:
    host = SimpleNamespace(_logger=logging.getLogger("goscheduler"), clock=ManualClock(), _clock=ManualClock())
    caplog.set_level(logging.DEBUG)
    for url in bad_urls:
        assert_hidden(told(lambda url=url: ManualScheduler(jobstores={"default": url})))
        assert_hidden(told(lambda url=url: Lock("x", url)))
        assert_hidden(told(lambda url=url: create_plugin("jobstore", url, url)))
        if url.startswith(("postgresql", "mysql", "mariadb", "redis:", "unknown")):  # the others wait for seconds
            assert_hidden(told(lambda url=url: create_plugin("jobstore", "default", url).start(host, "default")))
    assert_hidden(caplog.text)


@pytest.mark.parametrize("between", BETWEEN)
def test_no_setting_of_the_wrong_kind_shows_a_part_of_a_password(between: str) -> None:
    url = f"redis://me:{between.join(HALVES)}@127.0.0.1:1/0"
    for settings in ({"jobstores": url}, {"executors": url}, {"executors": {"default": url}}, {"lease": url},
                     {"jobstores": {"default": {"url": url}}}, {"logger": {"url": url}}):  # fmt: skip
        assert_hidden(told(lambda settings=settings: BackgroundScheduler(**settings), values=False))
    assert_hidden(told(lambda: SQLAlchemyJobStore(url)))
    assert_hidden(told(lambda: SQLAlchemyJobStore(f"postgresql://me:pw@127.0.0.1:{between.join(HALVES)}/x@h")))


@pytest.mark.parametrize("between", BETWEEN)
def test_no_transport_shows_a_part_of_a_password(between: str) -> None:
    password = between.join(HALVES)
    for scheme in ("amqp", "nats", "kafka", "redis", "https", "unknown"):
        assert_hidden(told(lambda scheme=scheme: create_transport(f"{scheme}://me:{password}@127.0.0.1:1/x")))


@pytest.mark.parametrize("between", ["", "@", "/", "12/34@"])
@pytest.mark.parametrize("scheme", ["postgresql", "mysql", "redis", "unknown", ""])
def test_the_command_line_shows_no_part_of_a_password(scheme: str, between: str) -> None:
    url = f"{scheme}{'://' if scheme else ''}me:{between.join(HALVES)}@127.0.0.1:1/0"
    for command in (["migrate", "status", url], ["migrate", "sql", url], ["import-apscheduler", url]):
        result = CliRunner().invoke(app, command)
        assert result.exit_code != 0 or command[1] == "sql"
        assert_hidden(result.output)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            assert_hidden(told(lambda error=result.exception: (_ for _ in ()).throw(error)))
