"""Who gets in, and what a request of a page of another site can do: nothing."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import quote

import pytest
from asgi_client import AsgiClient

from goscheduler.errors import InvalidArgument
from goscheduler.ops.access import Principal, Role
from goscheduler.ops.tokens import StoreTokens
from goscheduler.web import web_app
from goscheduler.web.sessions import LASTS, Sessions
from goscheduler.web.table import ROWS

ELSEWHERE = ("203.0.113.9", 40000)
PROXY = ("10.0.0.5", 40000)
#: Requests of which nobody who is not known gets the answer, whatever way they are written.
WAYS_AROUND = [
    "/v1/jobs", "//v1/jobs", "/v1//jobs", "/%76%31/jobs", "/v1/jobs/../jobs", "/v1/%2e%2e/v1/jobs", "/livez/../v1/jobs",
    "/static/../v1/jobs", "/static/%2e%2e/v1/jobs", "/login/../v1/jobs", "/v1/jobs?", "/v1/jobs#x", "/metrics",
    "/v1/openapi.json", "/v1/events?topics=jobs", "/v1/health", "/v1/messages", "/", "/nothing", "/v1/jobs;/livez",
    "/livez/", "/v1/jobs%00/livez", "/login%2f..%2fv1/jobs",
]  # fmt: skip


def reveals(answer):
    return answer.status < 300 or "plain" in answer.text


# Closed by default


def test_without_any_setting_only_this_machine_gets_in(app):
    assert AsgiClient(app).get("/v1/jobs").status == 200
    assert AsgiClient(app, peer=("::1", 1), host="[::1]:8180").get("/v1/jobs").status == 200
    assert AsgiClient(app, peer=("::ffff:127.0.0.1", 1)).get("/v1/jobs").status == 200
    for peer in (ELSEWHERE, ("::ffff:203.0.113.9", 1), ("", 0), ("testclient", 1), None):
        answer = AsgiClient(app, peer=peer).get("/v1/jobs")
        assert (answer.status, "tokens" in answer.json()["detail"]) == (403, True), peer


@pytest.mark.parametrize("header", [
    "forwarded", "x_forwarded_for", "x_forwarded_host", "x_forwarded_proto", "x_forwarded_prefix", "via", "x_real_ip",
])  # fmt: skip
def test_without_any_setting_what_a_proxy_passes_on_does_not_get_in(client, header):
    assert client.get("/v1/jobs", **{header: "127.0.0.1"}).status == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "203.0.113.9", "", "localhost@evil",
             "localhost/evil", "evil, localhost", "localhost evil", "[::1", "0x7f000001", "jobs.example"],
)  # fmt: skip
def test_a_name_that_was_made_to_lead_here_does_not_get_in(app, host):
    assert AsgiClient(app, host=host).get("/v1/jobs").status == 403


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8180", "localhost.", "127.0.0.1:1", "app.localhost"])
def test_the_names_of_this_machine_get_in(app, host):
    assert AsgiClient(app, host=host).get("/v1/jobs").status == 200


def test_two_hosts_are_none(app):
    assert AsgiClient(app).request("GET", "/v1/jobs", raw_headers=[(b"host", b"localhost")]).status == 403


def test_names_can_be_allowed(source):
    app = web_app(source, tokens=True, allowed_hosts=["Jobs.example", "*.inner.example"])
    for host, gets_in in [
        ("jobs.example", True), ("jobs.example:443", True), ("a.inner.example", True), ("inner.example", False),
        ("evil.example", False), ("xinner.example", False), ("10.0.0.1:80", True), ("localhost", True),
    ]:  # fmt: skip
        status = AsgiClient(app, peer=ELSEWHERE, host=host).get("/v1/jobs").status
        assert status == (401 if gets_in else 403), host


# Every route, with whatever somebody shows who may not


@pytest.mark.parametrize("target", WAYS_AROUND)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PATCH", "DELETE", "OPTIONS", "TRACE", "get", "PROPFIND"])
def test_there_is_no_way_around_the_guard(locked, scheduler, method, target):
    for root_path in ("", "/jobs"):
        client = AsgiClient(locked, peer=ELSEWHERE, host="jobs.example", root_path=root_path)
        answer = client.request(method, target, sec_fetch_site="same-origin")
        assert not reveals(answer), answer
    assert scheduler.get_job("plain") is not None


@pytest.mark.parametrize("target", ["/v1/jobs/static/x", "/v1/jobs/login", "/v1/jobs/livez", "/x/static/y", "/x/login"])
def test_only_the_paths_that_everybody_may_see_are_open(locked, target):
    assert AsgiClient(locked, host="jobs.example").get(target).status == 401


@pytest.mark.parametrize("row", [pytest.param(row, id=f"{row.method} {row.path}") for row in ROWS])
def test_no_route_answers_without_a_token_that_counts(locked, token, source, scheduler, row):
    expired = token(Role.ADMIN, expires_at=scheduler.clock.now() - timedelta(seconds=1))
    revoked = token(Role.ADMIN)
    StoreTokens(source).remove(revoked.split("_")[1])
    good = token(Role.ADMIN)
    shown = [
        "", "Bearer", "Bearer ", f"Bearer {expired}", f"Bearer {revoked}", f"Bearer {good[:-1]}", f"Bearer {good}x",
        f"Basic {good}", "Bearer gst__", "Bearer " + "x" * 10_000, f"Bearer {good.upper()}",
    ]  # fmt: skip
    client = AsgiClient(locked, host="jobs.example")
    path = row.path.replace("{", "").replace("}", "")
    for value in shown:
        answer = client.request(row.method, path, authorization=value, content_type="application/json", body=b"{}")
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer"), value


def test_a_token_gets_in_with_its_role_its_scope_and_its_name(locked, token, call):
    shown = token(Role.OPERATOR, "ann", tags=["reports"])
    client = AsgiClient(locked, host="jobs.example", authorization=f"Bearer {shown}")
    assert [job["id"] for job in client.get("/v1/jobs").json()["items"]] == ["other", "nightly"]
    assert client.get("/v1/jobs/plain").status == 404
    assert client.get("/v1/overview").status == 403
    assert client.post("/v1/jobs/other:pause", {"reason": "x"}).status == 200
    assert client.request("DELETE", "/v1/jobs/other").status == 403
    assert [entry["actor"] for entry in call("audit")["items"]] == ["ann"]


def test_arguments_are_hidden_from_a_token_that_may_not_see_them(locked, token):
    for see, args in ((False, "•••"), (True, [1])):
        client = AsgiClient(locked, host="localhost", authorization=f"bearer {token(see_arguments=see)}")
        job = client.get("/v1/jobs/plain").json()
        assert job["args"] == args
        assert "hush" not in str(job)


def test_a_token_that_is_revoked_counts_no_longer_at_once(locked, token, source):
    shown = token()
    client = AsgiClient(locked, host="localhost", authorization=f"Bearer {shown}")
    assert client.get("/v1/jobs").status == 200
    StoreTokens(source).remove(shown.split("_")[1])
    assert client.get("/v1/jobs").status == 401


def test_of_a_token_the_store_has_no_secret(source, token):
    shown = token()
    (kept,) = StoreTokens(source).all()
    assert shown.split("_", 2)[2] not in str(kept)
    assert len(kept.sha256) == 64


# The program around


def test_the_program_around_says_who_asks(source):
    async def who(request):
        return {"ann": Principal("ann", Role.ADMIN), "": None}[request.headers.get("x-test", "")]

    client = AsgiClient(web_app(source, principal=who), peer=ELSEWHERE, host="shop.example")
    assert client.get("/v1/jobs", x_test="ann").status == 200
    assert client.get("/v1/jobs").status == 401
    assert client.get("/v1/jobs", x_test="bob").status == 500


def test_what_is_no_principal_does_not_get_in(source):
    for wrong in ("ann", True, 1, {"name": "ann", "role": 3}):
        assert AsgiClient(web_app(source, principal=lambda wrong=wrong: wrong)).get("/v1/jobs").status == 500


# Proxies


def test_a_proxy_that_is_trusted_says_who_asks(source, call):
    app = web_app(
        source, auth_header="X-Forwarded-User", trusted_proxies=["10.0.0.0/8"], roles={"ada": Role.ADMIN},
        allowed_hosts=["jobs.example"],
    )  # fmt: skip
    behind = AsgiClient(app, peer=PROXY, host="jobs.example", sec_fetch_site="same-origin")
    assert behind.get("/v1/jobs", x_forwarded_user="vic").status == 200
    assert behind.post("/v1/jobs/plain:pause", {}, x_forwarded_user="vic").status == 403
    paused = behind.post("/v1/jobs/plain:pause", {}, x_forwarded_user="ada", x_forwarded_for="6.6.6.6, 198.51.100.7")
    assert paused.status == 200
    assert call("audit")["items"][0]["address"] == "198.51.100.7"
    assert behind.get("/v1/jobs").status == behind.get("/v1/jobs", x_forwarded_user=" ").status == 401
    twice = [(b"x-forwarded-user", b"ada"), (b"x-forwarded-user", b"vic")]
    assert behind.request("GET", "/v1/jobs", raw_headers=twice).status == 401
    for peer in (ELSEWHERE, ("127.0.0.1", 1), None):
        assert AsgiClient(app, peer=peer, host="jobs.example").get("/v1/jobs", x_forwarded_user="ada").status == 401


def test_what_is_no_network_is_refused(source):
    with pytest.raises(InvalidArgument, match="trusted_proxies"):
        web_app(source, trusted_proxies=["everybody"])


# Pages of other sites


CROSS_SITE = [
    {"sec_fetch_site": "cross-site", "origin": "https://evil.example"},
    {"sec_fetch_site": "same-site", "origin": "http://other.localhost:8180"},
    {"sec_fetch_site": "none"},
    {"sec_fetch_site": "cross-site", "origin": "http://localhost:8180"},
    {"origin": "https://evil.example"},
    {"origin": "http://localhost:9999"},
    {"origin": "null"},
    {"origin": "http://localhost:8180.evil.example"},
    {"content_type": "text/plain"},
    {"content_type": "application/x-www-form-urlencoded", "sec_fetch_site": "cross-site"},
]


@pytest.mark.parametrize("headers", CROSS_SITE, ids=str)
def test_a_page_of_another_site_can_change_nothing(client, scheduler, headers):
    for row in ROWS:
        if row.operation.acts:
            path = row.path.replace("{id}", "plain").replace("{name}", "x").replace("{owner}", "x")
            method = row.method if "sec_fetch_site" in headers or "origin" in headers else "POST"
            if method != row.method:
                continue
            given = {"content_type": "application/json", **headers}
            answer = client.request(method, path, body=b'{"ids": ["plain"]}', **given)
            assert (answer.status, "another site" in answer.text) == (403, True), row
    assert scheduler.get_job("plain").next_run_time is not None


@pytest.mark.parametrize("headers", [
    {"sec_fetch_site": "same-origin"}, {"origin": "http://localhost:8180"}, {"content_type": "application/json"},
])  # fmt: skip
def test_our_own_pages_and_programs_can(client, headers):
    assert client.post("/v1/jobs/plain:pause", {}, **headers).status == 200


def test_a_token_shows_that_no_page_of_another_site_asks(locked, token):
    client = AsgiClient(locked, host="localhost", authorization=f"Bearer {token(Role.OPERATOR)}")
    elsewhere = {"origin": "https://app.example", "sec_fetch_site": "cross-site"}
    assert client.post("/v1/jobs/plain:pause", {}, **elsewhere).status == 200


def test_no_answer_allows_another_site_to_read_it(client):
    answer = client.request("OPTIONS", "/v1/jobs", origin="https://evil.example", access_control_request_method="GET")
    assert (answer.status, [name for name in answer.headers if name.startswith("access-control")]) == (405, [])


@pytest.mark.parametrize("target", ["/v1/jobs", "/v1/nothing", "/nothing", "/livez", "/v1/jobs/nobody"])
def test_every_answer_has_the_headers_that_bind_a_browser(app, target):
    for client in (AsgiClient(app), AsgiClient(app, host="evil.example")):
        headers = client.get(target).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == headers["cross-origin-opener-policy"] == "same-origin"
    assert policy != AsgiClient(app).get(target).headers["content-security-policy"]  # the nonce is new each time


def test_what_is_in_an_id_cannot_make_a_header(client, scheduler):
    for text in ("a\r\nSet-Cookie: x=1", "ü\n"):
        answer = client.post("/v1/jobs", {"job": {"task": "greet", "id": text, "trigger": "0 3 * * *"}})
        assert "set-cookie" not in answer.headers
        assert answer.status == 422 or "%0A" in answer.headers["location"]


def test_what_is_in_the_place_of_a_mount_cannot_make_a_header(app):
    place = "/a\r\nSet-Cookie: x=1; Path=/ü"
    raw = quote(place, safe="/")

    class Mounted:
        async def __call__(self, scope, receive, send):
            await app({**scope, "root_path": place}, receive, send)

    job = {"job": {"task": "greet", "id": "new", "trigger": "0 3 * * *"}}
    answer = AsgiClient(Mounted()).post(f"{raw}/v1/jobs", job)
    assert (answer.status, answer.headers["location"].count("%0D%0A")) == (201, 1)
    assert "set-cookie" not in answer.headers


# Sessions


def logged_in(client, shown, goal="/"):
    form = f"token={quote(shown)}&next={quote(goal)}".encode()
    return client.request(
        "POST", "/login", body=form, content_type="application/x-www-form-urlencoded", sec_fetch_site="same-origin"
    )


@pytest.fixture
def browser(locked):
    return AsgiClient(locked, host="localhost:8180", sec_fetch_site="same-origin")


def cookie_of(answer):
    return answer.headers["set-cookie"].partition(";")[0]


def test_a_browser_that_shows_a_token_has_a_session(browser, token):
    answer = logged_in(browser, token(Role.OPERATOR), "/jobs?tag=x")
    assert (answer.status, answer.headers["location"]) == (303, "/jobs?tag=x")
    assert {"HttpOnly", "SameSite=Lax", f"Max-Age={LASTS}", "Path=/"} <= set(answer.headers["set-cookie"].split("; "))
    assert browser.get("/v1/jobs", cookie=cookie_of(answer)).status == 200
    assert browser.post("/v1/jobs/plain:pause", {}, cookie=cookie_of(answer)).status == 200
    crossing = {"cookie": cookie_of(answer), "sec_fetch_site": "cross-site"}
    assert browser.post("/v1/jobs/plain:resume", {}, **crossing).status == 403
    left = browser.request("POST", "/logout", cookie=cookie_of(answer))
    assert (left.status, left.headers["location"]) == (303, "/login?why=out")
    assert "Max-Age=0" in left.headers["set-cookie"]


def test_on_tls_the_cookie_is_bound_to_the_host(locked, token):
    client = AsgiClient(locked, scheme="https", host="jobs.example", sec_fetch_site="same-origin")
    answer = logged_in(client, token())
    assert answer.headers["set-cookie"].startswith("__Host-gs=")
    assert "; Secure" in answer.headers["set-cookie"]
    assert client.get("/v1/jobs", cookie=cookie_of(answer)).status == 200
    assert client.get("/v1/jobs", cookie=cookie_of(answer).replace("__Host-", "")).status == 401


def test_a_session_ends_with_its_token_and_after_its_time(browser, token, scheduler, source):
    shown = token()
    answer = logged_in(browser, shown)
    scheduler.advance(timedelta(seconds=LASTS - 60))
    assert browser.get("/v1/jobs", cookie=cookie_of(answer)).status == 200
    scheduler.advance(timedelta(seconds=61))
    assert browser.get("/v1/jobs", cookie=cookie_of(answer)).status == 401
    answer = logged_in(browser, shown)
    StoreTokens(source).remove(shown.split("_")[1])
    assert browser.get("/v1/jobs", cookie=cookie_of(answer)).status == 401
    answer = logged_in(browser, token(expires_at=scheduler.clock.now() + timedelta(hours=1)))
    assert browser.get("/v1/jobs", cookie=cookie_of(answer)).status == 200
    scheduler.advance(timedelta(hours=1))
    assert browser.get("/v1/jobs", cookie=cookie_of(answer)).status == 401


def test_a_forged_cookie_does_not_get_in(browser, token, scheduler, source):
    value = cookie_of(logged_in(browser, token(Role.VIEWER))).partition("=")[2]
    token_id, ends, signature = value.split(".")
    admin = token(Role.ADMIN, "ada").split("_")[1]
    other = Sessions("t" * 32, scheduler.clock).begin(admin)
    forged = [
        f"{admin}.{ends}.{signature}", f"{token_id}.{int(ends) + 1}.{signature}", f"{token_id}.{ends}.", "..", "", "x",
        f"{token_id}.{ends}", other, f"{value}x", value[:-1], f"{token_id}.{ends}.{signature}ü",
    ]  # fmt: skip
    for each in forged:
        assert browser.get("/v1/jobs", cookie=f"gs={each}").status == 401, each
    assert browser.get("/v1/jobs", cookie=f"gs={value}").status == 200


def test_processes_with_the_same_secret_know_each_others_sessions(source, browser, token):
    answer = logged_in(browser, token())
    for secret, status in (("s" * 32, 200), ("t" * 32, 401), (None, 401)):
        other = AsgiClient(web_app(source, tokens=True, secret=secret))
        assert other.get("/v1/jobs", cookie=cookie_of(answer)).status == status
    with pytest.raises(InvalidArgument, match="32"):
        web_app(source, tokens=True, secret="short")


def test_who_tries_tokens_is_stopped_for_a_minute(browser, token, scheduler):
    for _ in range(5):
        assert "why=wrong" in logged_in(browser, "gst_0_x").headers["location"]
    good = token()
    assert "why=often" in logged_in(browser, good).headers["location"]
    assert "set-cookie" not in logged_in(browser, good).headers
    scheduler.advance(timedelta(seconds=61))
    assert "set-cookie" in logged_in(browser, good).headers


@pytest.mark.parametrize("goal", [
    "https://evil.example", "//evil.example", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)", "evil",
    "/a\r\nSet-Cookie: x=1", "", "/%0d%0a\u2028", "///evil.example",
])  # fmt: skip
def test_a_log_in_leads_nowhere_else(browser, token, goal):
    assert logged_in(browser, token(), goal).headers["location"] == "/"


def test_a_person_logs_in_by_name_and_password(browser, token, call):
    token(Role.OPERATOR, "ann", password="correct horse")
    token(Role.ADMIN, "bob")

    def answered(name, password):
        form = f"name={quote(name)}&password={quote(password)}".encode()
        answer = browser.request("POST", "/login", body=form, content_type="application/x-www-form-urlencoded")
        return answer if "set-cookie" in answer.headers else None

    assert [answered(*each) for each in [("ann", "wrong horse"), ("bob", ""), ("eve", ""), ("ann", "")]] == [None] * 4
    session = cookie_of(answered("ann", "correct horse"))
    assert browser.post("/v1/jobs/plain:pause", {}, cookie=session).status == 200
    assert call("audit")["items"][0]["actor"] == "ann"


def test_of_a_password_the_store_has_a_salted_hash(source, token):
    for _ in range(2):
        token(password="correct horse")
    first, second = StoreTokens(source).all()
    assert "correct" not in str((first, second))
    assert first.password != second.password
    with pytest.raises(InvalidArgument, match="password"):
        token(password="short")


def test_a_page_of_another_site_cannot_log_somebody_in(browser, token):
    form = f"token={token()}".encode()
    answer = browser.request(
        "POST", "/login", body=form, content_type="application/x-www-form-urlencoded", sec_fetch_site="cross-site"
    )
    assert (answer.status, "set-cookie" in answer.headers) == (403, False)


def test_there_is_no_log_in_where_there_are_no_tokens(client):
    assert logged_in(client, "x").status == 404
