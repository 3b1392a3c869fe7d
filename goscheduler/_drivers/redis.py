"""Clients of Redis: a single server, or the one that Sentinel says is the master.

A client of ours never sends anything twice by itself: what was sent and not answered may have been done. A call that
gets no answer is given up after :data:`ANSWER_WITHIN` seconds, a quarter of a lease.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

import redis
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool

from goscheduler.errors import InvalidArgument, shown
from goscheduler.plugins import require_clear_login

CONNECT_WITHIN = 5.0
ANSWER_WITHIN = 7.0
SENTINEL_WITHIN = 1.0
SENTINEL_PORT = 26379
MAX_PREFIX_LENGTH = 200

#: They have no types.
_parse: Any = parse_url
_SentinelPool: Any = SentinelConnectionPool

_POOLS = (redis.ConnectionPool, redis.BlockingConnectionPool, SentinelConnectionPool)
_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
#: In some versions of redis-py these have the last word, after ``retry``.
_SENDS_TWICE = ("retry_on_timeout", "retry_on_error")
#: Kept within arm's length of the client's own defaults, which try again for a minute, and send twice.
_SAFE: Mapping[str, Any] = {
    "socket_connect_timeout": CONNECT_WITHIN,
    "socket_timeout": ANSWER_WITHIN,
    "socket_keepalive": True,
}
#: The same for each Sentinel: there are others to be asked.
_QUICK: Mapping[str, float] = {"socket_connect_timeout": SENTINEL_WITHIN, "socket_timeout": SENTINEL_WITHIN}


def make_client(url: str | None, options: Mapping[str, Any]) -> Any:
    """Return a client that gives up in time and never sends anything twice."""
    settings = {**_SAFE, **options, "retry": _once()}
    if url is None:
        return _checked(redis.Redis(**settings))
    try:
        require_clear_login(url)
        of_sentinel = url.partition("://")[0].lower() in ("redis+sentinel", "rediss+sentinel")
        return _checked((_from_sentinel_url if of_sentinel else redis.Redis.from_url)(url, **settings))
    except InvalidArgument:
        raise
    except (ValueError, TypeError, AttributeError):
        # The address itself is not told: it may hold a password.
        raise InvalidArgument(
            "url must be an address such as redis://localhost:6379/0, rediss://localhost:6379/0 or "
            "redis+sentinel://host:26379,other:26379/name-of-master/0",
            field="url",
        ) from None


def _once() -> Retry:
    return Retry(NoBackoff(), 0)


def _checked(client: Any) -> Any:
    """Return a client whose options make sense; it would not say so before it connects."""
    pool = client.connection_pool
    pool.connection_kwargs.update(retry=_once(), decode_responses=False)  # whatever an address may say
    for name in _SENDS_TWICE:
        pool.connection_kwargs.pop(name, None)
    for name in _FILES:
        path = pool.connection_kwargs.get(name)
        if path is not None and not Path(path).is_file():
            raise InvalidArgument(f"{name} must be a file, and there is none at {shown(path)}", field=name, value=path)
    try:
        pool.connection_class(**pool.connection_kwargs)
    except (TypeError, ValueError, redis.RedisError) as error:
        raise InvalidArgument(f"The options are not as redis-py takes them: {error}", field="url") from None
    return client


# Sentinel


class Sentinels(Sentinel):
    """Asks several Sentinels for the master.

    Unlike its parent it can be used by several threads at once, and tells of errors without the settings of clients.
    """

    _force_master_ip: str | None = None

    @classmethod
    def like(cls, other: Sentinel) -> Sentinels:
        """Return the same Sentinels, which are asked once, and for a short time."""
        known = [each.connection_pool.connection_kwargs for each in other.sentinels]
        quick = {name: min(other.sentinel_kwargs.get(name) or most, most) for name, most in _QUICK.items()}
        settings = {**other.sentinel_kwargs, **quick, "retry": _once()}
        make: Any = cls
        made: Sentinels = make([(each["host"], each["port"]) for each in known], other.min_other_sentinels, settings)
        made._force_master_ip = getattr(other, "_force_master_ip", None)
        return made

    def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return where the master is.

        :raises MasterNotFoundError: if none of them knows one that is alive
        """
        problems = []
        for sentinel in self.sentinels:
            try:
                masters: Any = sentinel.sentinel_masters()
            except redis.RedisError as error:
                problems.append(f"{_address(sentinel)}: {error}")
                continue
            state = masters.get(service_name)
            if state and self._vouches_for(state, service_name):
                # A new list: threads that changed the same one would lose some of them.
                self.sentinels = [sentinel, *(each for each in self.sentinels if each is not sentinel)]
                return self._force_master_ip or state["ip"], state["port"]
        told = f" ({'; '.join(problems)})" if problems else ""
        raise MasterNotFoundError(f"no Sentinel knows a master {shown(service_name)} that is alive{told}")

    def _vouches_for(self, state: Mapping[str, Any], service_name: str) -> bool:
        check: Any = self.check_master_state
        return bool(check(state, service_name))


def _from_sentinel_url(url: str, **settings: Any) -> Any:
    """Return a client for ``redis+sentinel://user:password@host:port,host:port/master/db?option=value``.

    User and password are those of the master; options that begin with ``sentinel_`` are for the Sentinels.
    """
    scheme, _, rest = url.partition("://")
    place, _, query = rest.partition("?")
    authority, _, path = place.partition("/")
    login, at, hosts = authority.rpartition("@")
    name, _, db = path.partition("/")
    if not name or not hosts:
        raise ValueError("no Sentinel, or no name of a master")
    server, encrypted = scheme.lower().removesuffix("+sentinel"), scheme.lower().startswith("rediss")
    options = parse_qsl(query, keep_blank_values=True)
    of_sentinels = [(key.removeprefix("sentinel_"), value) for key, value in options if key.startswith("sentinel_")]
    others = [(key, value) for key, value in options if not key.startswith("sentinel_")]
    found = _parse(f"{server}://{login}{at}localhost/{int(db or 0)}?{urlencode(others)}")
    asking = _parse(f"{server}://localhost?{urlencode(of_sentinels)}")
    for each in (found, asking):
        for key in ("host", "port", "connection_class"):
            each.pop(key, None)
    security = {key: value for key, value in {**settings, **found}.items() if key.startswith("ssl_")}
    tls = {"ssl": True} if encrypted else {}
    make: Any = Sentinels
    sentinels = make(
        [_host_and_port(host) for host in hosts.split(",")],
        sentinel_kwargs={**tls, **security, **_QUICK, "socket_keepalive": True, **asking, "retry": _once()},
    )
    return sentinels.master_for(unquote(name), **tls, **{**settings, **found})


def _host_and_port(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(SENTINEL_PORT)
    if not host:
        raise ValueError("a Sentinel without a name")
    return host.removeprefix("[").removesuffix("]"), int(port)


# Clients of others


def sibling(client: Any, **changes: Any) -> Any:
    """Return a client of our own for the same server, which sends nothing twice, with other settings.

    None if it is of a kind of which that is not known, such as one for a cluster.
    """
    pool: Any = getattr(client, "connection_pool", None)
    if type(pool) not in _POOLS:
        return None
    settings = {**pool.connection_kwargs, **changes, "decode_responses": False, "retry": _once()}
    for name in _SENDS_TWICE:
        settings.pop(name, None)
    if not isinstance(pool, SentinelConnectionPool):
        return redis.Redis.from_pool(redis.ConnectionPool(connection_class=pool.connection_class, **settings))
    settings.pop("connection_pool", None)
    known = pool.sentinel_manager
    return redis.Redis.from_pool(_SentinelPool(
        pool.service_name, Sentinels.like(known) if type(known) in (Sentinel, Sentinels) else known,
        connection_class=pool.connection_class, is_master=pool.is_master, check_connection=pool.check_connection,
        **settings,
    ))  # fmt: skip


def made_safe(client: Any) -> Any:
    """Return ``client``, or one of our own for the same server if that one sends twice, or might wait for ever."""
    pool: Any = getattr(client, "connection_pool", None)
    if type(pool) not in _POOLS:
        return client
    connection = pool.connection_class(**pool.connection_kwargs)  # which does not connect yet
    patient = [name for name in ("socket_connect_timeout", "socket_timeout") if getattr(connection, name, 1) is None]
    if patient or connection.retry._retries or type(getattr(pool, "sentinel_manager", None)) is Sentinel:
        return sibling(client, **{name: _SAFE[name] for name in patient})
    return client


def forget_connections(client: Any) -> None:
    """Let a client connect anew: the server behind its address is another one by now."""
    pool = getattr(client, "connection_pool", None)
    if isinstance(pool, redis.ConnectionPool) and not isinstance(pool, redis.BlockingConnectionPool):
        pool.disconnect(inuse_connections=False)


def close_client(client: Any) -> None:
    """Close a client and, if there are any, those that ask its Sentinels."""
    client.close()
    known = getattr(getattr(client, "connection_pool", None), "sentinel_manager", None)
    if isinstance(known, Sentinels):
        for sentinel in known.sentinels:
            sentinel.close()


def is_encrypted(client: Any) -> bool:
    """Tell whether a client speaks TLS."""
    connection: Any = getattr(getattr(client, "connection_pool", None), "connection_class", object)
    return issubclass(connection, redis.SSLConnection)


def address_of(client: Any) -> str:
    """Return where the server of a client is, without a password."""
    pool = getattr(client, "connection_pool", None)
    settings = getattr(pool, "connection_kwargs", {})
    if isinstance(pool, SentinelConnectionPool):
        asked = ",".join(sorted(_address(each) for each in getattr(pool.sentinel_manager, "sentinels", ())))
        return f"{pool.service_name}/{settings.get('db', 0)} of Sentinel {asked}".rstrip()
    if "path" in settings:
        return str(settings["path"])
    return f"{settings.get('host', 'localhost')}:{settings.get('port', 6379)}/{settings.get('db', 0)}"


def _address(sentinel: Any) -> str:
    settings = sentinel.connection_pool.connection_kwargs
    return f"{settings['host']}:{settings['port']}"


# Names of keys


def check_prefix(value: Any) -> str:
    """Return ``value`` if all keys can begin with it.

    :raises InvalidArgument: if they cannot
    """
    if not isinstance(value, str) or not value or len(value) > MAX_PREFIX_LENGTH:
        raise _refused(f"a nonempty string of at most {MAX_PREFIX_LENGTH} characters", value)
    if not value.isprintable() or "{" in value or "}" in value:
        raise _refused("printable and without braces", value)
    return value


def _refused(what: str, value: object) -> InvalidArgument:
    return InvalidArgument(f"prefix must be {what}, got {shown(value)}", field="prefix", value=value)
