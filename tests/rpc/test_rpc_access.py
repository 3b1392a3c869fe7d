"""Who gets in over gRPC: tokens, certificates, callers on the machine, and nobody else."""

from __future__ import annotations

import shutil

import grpc
import pytest
from certificates import Authority

from goscheduler.errors import InvalidArgument
from goscheduler.ops.access import Principal, Role, Unauthenticated
from goscheduler.rpc import Server, Tls
from goscheduler.rpc.access import FORWARDING, Access, bearer_of, is_local, is_loopback
from goscheduler.rpc.gen import operations_pb2 as pb
from goscheduler.rpc.gen import operations_pb2_grpc

PATIENCE = 60.0


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    return Authority(tmp_path_factory.mktemp("pki") / "ours")


@pytest.fixture(scope="module")
def other_authority(authority, tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("pki") / "theirs")


@pytest.fixture
def count(connected):
    """Calls a method of the server at an address, and returns the code."""

    def count(address, credentials=None, /, **options):
        calls = operations_pb2_grpc.OperationsServiceStub(connected(address, credentials))
        try:
            calls.CountJobs(pb.CountJobsRequest(), timeout=PATIENCE, **options)
        except grpc.RpcError as error:
            return error.code().name
        return "OK"

    return count


def bearer(token):
    return [("authorization", f"Bearer {token}")]


def by_token(token):
    if token != "right":
        raise Unauthenticated("the token is unknown")
    return Principal("ann")


def test_without_any_setting_callers_on_this_machine_get_in(served, count):
    address = served()
    assert count(address) == "OK"
    for name in FORWARDING:
        assert count(address, metadata=[(name, "10.0.0.1")]) == "UNAUTHENTICATED"


def test_with_tokens_only_their_bearers_get_in(served, count):
    address = served(authenticate=by_token)
    assert count(address) == "UNAUTHENTICATED"
    assert count(address, metadata=bearer("wrong")) == "UNAUTHENTICATED"
    assert count(address, metadata=[("authorization", "Basic right")]) == "UNAUTHENTICATED"
    assert count(address, metadata=bearer("right")) == "OK"


def test_a_function_of_the_users_decides_alone(served, count):
    address = served(principal=lambda context: None, authenticate=by_token)
    assert count(address, metadata=bearer("right")) == "UNAUTHENTICATED"


@pytest.fixture
def tls(authority):
    certificate, key = authority.issue("localhost")
    return Tls(certificate.read_bytes(), key.read_bytes())


@pytest.fixture
def mutual_tls(authority, tls):
    return Tls(tls.certificate, tls.key, authority.certificate.read_bytes())


def credentials_of(authority, holder=None):
    root = authority.certificate.read_bytes()
    if holder is None:
        return grpc.ssl_channel_credentials(root)
    certificate, key = holder
    return grpc.ssl_channel_credentials(root, key.read_bytes(), certificate.read_bytes())


def test_tls_lets_in_who_trusts_the_certificate(authority, other_authority, served, count, tls):
    address = served(tls=tls)
    assert count(address, credentials_of(authority)) == "OK"
    assert count(address, credentials_of(other_authority)) == "UNAVAILABLE"
    assert count(address) == "UNAVAILABLE"


def test_a_client_certificate_tells_who_calls(authority, other_authority, served, count, mutual_tls):
    asked = []

    def by_name(name):
        asked.append(name)
        return Principal(name, Role.VIEWER)

    address = served(tls=mutual_tls, certificate=by_name)
    assert count(address, credentials_of(authority, authority.issue("ann"))) == "OK"
    assert asked == ["ann"]
    assert count(address, credentials_of(authority)) == "UNAVAILABLE"
    assert count(address, credentials_of(authority, other_authority.issue("eve"))) == "UNAVAILABLE"
    assert asked == ["ann"]


def test_a_client_certificate_without_a_name_is_nobodys(authority, served, count, mutual_tls):
    address = served(tls=mutual_tls, certificate=Principal)
    assert count(address, credentials_of(authority, authority.issue(""))) == "UNAUTHENTICATED"


def test_a_token_goes_before_a_certificate(authority, served, connected, mutual_tls, call):
    address = served(
        tls=mutual_tls, certificate=lambda name: Principal(name, Role.VIEWER),
        authenticate=lambda token: Principal("boss", Role.OPERATOR),
    )  # fmt: skip
    channel = connected(address, credentials_of(authority, authority.issue("ann")))
    calls = operations_pb2_grpc.OperationsServiceStub(channel)
    calls.PauseJobs(pb.PauseJobsRequest(ids=["plain"]), metadata=bearer("any"), timeout=PATIENCE)
    assert call("audit")["items"][0]["actor"] == "boss"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "jobs.example"])
def test_a_server_that_others_reach_needs_tls_and_to_know_who_calls(source, host):
    with pytest.raises(InvalidArgument) as caught:
        Server(source, host=host, authenticate=by_token)
    assert caught.value.field == "tls"
    with pytest.raises(InvalidArgument) as caught:
        Server(source, host=host, insecure=True)
    assert caught.value.field == "authenticate"
    with pytest.raises(InvalidArgument) as caught:
        Server(source, host=host, tls=Tls(b"", b""))
    assert caught.value.field == "authenticate"


def test_a_port_that_is_taken_is_told_and_not_shared(source, served):
    port = int(served().rpartition(":")[2])
    with pytest.raises(OSError, match="in use"):
        Server(source, port=port).start()


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("localhost", True), ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("127.0.0.1.example", False), ("", False),
        ("::ffff:10.0.0.1", False), ("fe80::1%lo", False),
    ],
)  # fmt: skip
def test_what_is_this_machine_alone(host, expected):
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ("ipv4:127.0.0.1:40000", True), ("ipv6:%5B::1%5D:40000", True), ("ipv6:[::1]:40000", True),
        ("unix:/run/x.sock", True), ("ipv4:10.0.0.1:40000", False), ("ipv6:%5B2001:db8::1%5D:4", False),
        ("", False), ("unknown", False),
    ],
)  # fmt: skip
def test_which_peers_are_on_this_machine(peer, expected):
    assert is_local(peer, {}) is expected


@pytest.mark.parametrize(
    ("given", "token"),
    [
        ({"authorization": "Bearer gst_1_x"}, "gst_1_x"), ({"authorization": " bearer  t "}, "t"),
        ({"authorization": "Bearer"}, None), ({"authorization": "Basic t"}, None), ({}, None),
    ],
)  # fmt: skip
def test_the_token_of_a_call(given, token):
    assert bearer_of(given) == token


def test_nobody_is_told_what_to_do_to_get_in():
    class Context:
        def invocation_metadata(self):
            return ()

        def auth_context(self):
            return {}

        def peer(self):
            return "ipv4:10.0.0.1:1"

    hints = {
        "Bearer": Access(authenticate=by_token), "certificate": Access(certificate=Principal), "machine": Access(),
        "client CA": Access(),
    }  # fmt: skip
    for word, access in hints.items():
        with pytest.raises(Unauthenticated, match=word):
            access.caller(Context())
