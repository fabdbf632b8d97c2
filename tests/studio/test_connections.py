"""Connections without a token (issue 31): 1,500 half-open ones took all descriptors, for as long as they liked."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack

import pytest

pytest.importorskip("uvicorn", reason="needs extra `studio`")

from marginshot.studio import connections


def connect(client, stack: ExitStack, content: bytes = b"") -> socket.socket:
    opened = stack.enter_context(socket.create_connection(("127.0.0.1", client.access.port), timeout=10))
    if content:
        opened.sendall(content)
    return opened


def is_closed(opened: socket.socket, within: float) -> bool:
    opened.settimeout(within)
    try:
        while opened.recv(4096):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: x",
        b"POST /api/act HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHo",
    ],
)
def test_a_request_that_does_not_arrive_is_given_up(client, monkeypatch, content):
    monkeypatch.setattr(connections, "PATIENCE", 0.5)
    with ExitStack() as stack:
        assert is_closed(connect(client, stack, content), within=8)


def drip(opened: socket.socket, content: bytes) -> None:
    for letter in content:
        opened.sendall(bytes([letter]))
        time.sleep(0.05)


def test_a_request_that_drips_is_given_up(client, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE", 0.5)
    with ExitStack() as stack:
        opened = connect(client, stack)
        began = time.monotonic()
        with pytest.raises(OSError, match=r"reset|Broken|closed"):
            drip(opened, b"GET / HTTP/1.1\r\nHost: " + b"x" * 1000)
        assert time.monotonic() - began < 8


def test_connections_are_bounded_and_the_page_is_served_again(client, monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 20)
    monkeypatch.setattr(connections, "PATIENCE", 1.0)
    with ExitStack() as stack:
        opened = [connect(client, stack) for _ in range(60)]
        assert sum(is_closed(one, within=0.05) for one in opened) >= 35
        until, status = time.monotonic() + 10, None
        while status != 200 and time.monotonic() < until:
            try:
                status = client.get("/api/project").status
            except OSError:
                time.sleep(0.1)
        assert status == 200


def test_an_event_stream_stays_open_longer_than_a_request_may_take(client, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE", 0.3)
    connection, response = client.request("GET", "/api/events")
    assert response.status == 200
    time.sleep(1.0)
    client.act("add_class", classes=["yew"])
    assert b"state" in response.read1(4096)
    response.close()
    connection.close()
