"""Strangers are refused: pages of other sites, rebound names, whoever has no token; and browsers are kept strict."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from serving import rows_of_three_classes, running

from marginshot.labelling import Session
from marginshot.studio import views
from marginshot.studio.access import Access, Gate

EVERYWHERE = ["/", "/static/index.html", "/api/project", "/api/answers", "/api/thumb/0", "/api/events", "/nothing"]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """One for all: what is refused changes nothing."""
    with running(Session.from_embeddings(rows_of_three_classes()), tmp_path_factory.mktemp("cache")) as client:
        yield client


def raw(client, text):
    """Status of the response to a request sent byte by byte."""
    with socket.create_connection(("127.0.0.1", client.access.port), timeout=10) as connection:
        connection.sendall(text.replace("\n", "\r\n").encode())
        return int(connection.makefile("rb").readline().split()[1])


@pytest.mark.parametrize("path", EVERYWHERE)
@pytest.mark.parametrize(
    "host",
    [
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost",
        "127.0.0.1:{port}.evil.example",
        "192.168.0.1:{port}",
    ],
)
def test_another_host_is_refused_everywhere(client, path, host):
    assert client.get(path, Host=host.format(port=client.access.port)).status == 403


def test_our_own_hosts_are_known(client):
    for name in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
        assert client.get("/api/project", Host=f"{name}:{client.access.port}").status == 200


def test_a_rebound_page_is_refused_with_origin_and_cookie(client):
    rebound = f"evil.example:{client.access.port}"
    answer = client.post("/api/act", {"action": "undo"}, Host=rebound, Origin=f"http://{rebound}")
    assert answer.status == 403
    assert "own address" in answer.json["error"]


def test_missing_and_repeated_hosts_are_refused(client):
    cookie = f"Cookie: {client.cookie}\n"
    path = f"{client.access.place}/api/project"
    assert raw(client, f"GET {path} HTTP/1.0\n{cookie}\n") == 403
    assert raw(client, f"GET {path} HTTP/1.1\n{cookie}\n") == 400
    twice = f"Host: {client.host}\nHost: evil.example\n"
    assert raw(client, f"GET {path} HTTP/1.0\n{twice}{cookie}\n") in (400, 403)
    assert raw(client, f"GET http://evil.example{path} HTTP/1.1\nHost: {client.host}\n{cookie}\n") == 403


def test_the_forwarded_host_says_nothing(client):
    assert client.get("/api/project", Host="evil.example", X_Forwarded_Host=client.host).status == 403


def test_all_addresses_are_known_by_number_or_name_of_the_machine():
    access = Access(host="0.0.0.0", port=80)
    known = ["192.168.0.7:80", "[fe80::1]:80", f"{socket.gethostname()}:80", "localhost:80"]
    assert [host for host in known if not access.knows_host(host)] == []
    assert not any(map(access.knows_host, ["evil.example:80", "192.168.0.7:81", "1.2.3.4.evil.example:80", "", ":80"]))
    named = Access(host="10.0.0.5", port=80)
    assert named.knows_host("10.0.0.5:80")
    assert not named.knows_host("10.0.0.6:80")


def test_nobody_without_the_cookie_is_answered(client):
    for path in EVERYWHERE:
        for cookie in (None, client.cookie[:-1], client.cookie + "x", "marginshot_studio=1", client.access.cookie):
            assert client.get(path, Cookie=cookie).status == 403, (path, cookie)
    assert client.post("/api/act", {"action": "undo"}, Cookie=None).status == 403


def test_the_cookie_is_found_among_others(client):
    assert client.get("/api/project", Cookie=f"theme=dark; {client.cookie}; a=b=c").status == 200


def test_the_token_is_swapped_for_a_strict_cookie_and_leaves_the_address(client):
    answer = client.get(f"/?token={client.access.token}", Cookie=None)
    assert (answer.status, answer.headers["Location"]) == (303, f"{client.access.place}/")
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith(f"marginshot_studio_{client.access.port}=")
    assert {"HttpOnly", "SameSite=Strict", f"Path={client.access.place}"} <= set(cookie.split("; "))
    assert client.access.token not in cookie
    assert client.get("/", Cookie=cookie.partition(";")[0]).status == 200


def test_a_wrong_token_opens_nothing(client):
    for token in ("", "x", client.access.token[:-1], client.access.token + "x", "%ff%00é"):
        answer = client.get(f"/?token={token}".replace("é", "%C3%A9"), Cookie=None)
        assert (answer.status, answer.headers["Set-Cookie"]) == (403, None)
    assert client.get(f"/api/project?token={client.access.token}", Cookie=None).status == 403


def test_other_servers_of_this_machine_never_see_the_cookie(client):
    """Browsers send cookies to all ports: ours goes below a path alone that others cannot know."""
    for path in ("/", "/api/project", f"/{'0' * 32}/api/project", client.access.place):
        assert raw(client, f"GET {path} HTTP/1.1\nHost: {client.host}\nCookie: {client.cookie}\n\n") == 403
    assert client.access.place not in repr(client.access)


def test_the_address_a_browser_is_started_with_opens_once(client):
    path = client.access.one_time_address().partition(str(client.access.port))[2]
    assert client.access.token not in path
    assert client.get(path, Cookie=None).status == 303
    assert client.get(path, Cookie=None).status == 403


def test_two_runs_have_nothing_in_common():
    first, second = Access(host="127.0.0.1", port=1), Access(host="127.0.0.1", port=1)
    assert not first.takes_token(second.token)
    assert not first.takes_cookies([second.set_cookie.partition(";")[0]])
    assert first.token not in repr(first)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": None},
        {"Origin": "null"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "http://localhost:{port}"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Origin": ["http://127.0.0.1:{port}", "http://127.0.0.1:{port}"]},
        {"X_Marginshot": None},
        {"X_Marginshot": "0"},
        {"X_Marginshot": ["1", "1"]},
    ],
)
@pytest.mark.parametrize("path", ["/api/act", "/api/export"])
def test_only_our_own_page_may_write(client, path, headers):
    def filled(value):
        return value.format(port=client.access.port) if isinstance(value, str) else value and [*map(filled, value)]

    answer = client.post(path, {"action": "add_class", "name": "x"}, **{k: filled(v) for k, v in headers.items()})
    assert answer.status == 403
    assert client.get("/api/project").json["version"] == 0


def test_a_form_of_another_site_cannot_write(client):
    answer = client.post("/api/act", b'{"action": "add_class", "name": "x"}', Content_Type="text/plain")
    assert answer.status == 415


def test_no_response_allows_other_origins(client):
    connection, response = client.request("OPTIONS", "/api/act", headers={"Origin": "https://evil.example"})
    assert response.status == 403
    asked = {"Origin": "https://evil.example", "Access_Control_Request_Method": "POST"}
    answers = [client.get(path, **asked) for path in ("/", "/api/project", "/nothing")]
    for headers in (response.headers, *(answer.headers for answer in answers)):
        assert not [name for name in headers if name.lower().startswith("access-control")]
    connection.close()


@pytest.mark.parametrize("path", ["/", "/api/project", "/api/answers", "/nothing", "/api/items"])
@pytest.mark.parametrize("known", [True, False])
def test_every_response_keeps_the_browser_strict(client, path, known):
    headers = client.get(path, **({} if known else {"Cookie": None})).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] == ("private, no-cache" if path == "/" and known else "no-store")
    assert headers["Server"] is None


def test_only_this_machine_is_listened_on(client):
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", client.access.port), timeout=5)


def test_nothing_is_logged_of_a_request(tmp_path, capfd):
    with running(Session.from_embeddings(rows_of_three_classes()), tmp_path) as client:
        client.get("/api/project?token=" + client.access.token)
        client.get("/nothing")
        raw(client, "nonsense\n\n")
    assert capfd.readouterr() == ("", "")


def test_a_fault_of_ours_is_told_in_json_and_keeps_the_browser_strict(client, monkeypatch):
    monkeypatch.setattr(views, "project", lambda *_: 1 / 0)
    answer = client.get("/api/project")
    assert (answer.status, answer.headers["X-Content-Type-Options"]) == (500, "nosniff")
    assert "fault of the studio" in answer.json["error"]


def test_sockets_of_pages_are_closed(client):
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "websocket", "headers": [(b"host", client.host.encode()), (b"cookie", client.cookie.encode())]}
    with ThreadPoolExecutor(1) as apart:  # browser tests leave an event loop in this thread
        apart.submit(asyncio.run, Gate(None, client.access)(scope, None, send)).result()
    assert sent == [{"type": "websocket.close", "code": 1008}]
    upgrade = f"Connection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: {'A' * 22}==\n"
    path = f"{client.access.place}/api/events"
    assert raw(client, f"GET {path} HTTP/1.1\nHost: {client.host}\n{upgrade}\n") == 403


@pytest.mark.parametrize(
    ("host", "port", "known"),
    [
        ("127.0.0.1", 80, True),
        ("localhost", 80, True),
        ("[::1]", 80, True),
        ("127.0.0.1:80", 80, True),
        ("evil.example", 80, False),
        ("127.0.0.1", 8737, False),
        ("[::1]", 8737, False),
        ("[::1]:8737", 8737, True),
    ],
)
def test_browsers_leave_the_usual_port_out(host, port, known):
    assert Access(host="127.0.0.1", port=port).knows_host(host) is known
