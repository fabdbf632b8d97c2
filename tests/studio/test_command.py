"""`marginshot studio`, as a process: one line to start, nothing lost however it ends."""

import os
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from serving import Client, rows_of_three_classes, running
from typer.testing import CliRunner

from marginshot.cli.app import app
from marginshot.labelling import Session
from marginshot.studio.access import Access
from marginshot.studio.server import USUAL_PORT, listen
from signals import hearing_signals

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals")

OFFLINE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1] / "safety")!r})
import crash
tried = crash.close_network()
from marginshot.cli.app import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    sys.exit(f"connected to {{tried}}" if tried else end.code)
"""


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setenv("MARGINSHOT_SESSIONS", str(tmp_path / "sessions"))
    monkeypatch.setenv("MARGINSHOT_CACHE", str(tmp_path / "cache"))
    np.savez(tmp_path / "rows.npz", X=rows_of_three_classes())
    return tmp_path / "rows.npz"


@contextmanager
def studio(source, *options):
    """A client of the command, and its process, which may connect to nothing."""
    words = [sys.executable, "-c", OFFLINE, "studio", str(source), "--no-browser", "--port", "0", *options]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "preexec_fn": hearing_signals}
    with subprocess.Popen(words, **piped) as process:
        try:
            address = urlsplit(process.stdout.readline().strip())
            client = Client(Access(host="127.0.0.1", port=address.port, token=address.query.removeprefix("token=")))
            yield client.sign_in(), process
        finally:
            process.kill()


def test_it_goes_on_where_one_was_after_a_kill(source):
    with studio(source) as (client, process):
        client.act("label", rows=[0], name="ash")
        client.act("label", rows=[1], name="oak")
        client.act("label", rows=[2], name="yew")
        process.send_signal(signal.SIGKILL)
        process.wait(20)
    with studio(source) as (client, process):
        project = client.get("/api/project").json
        assert [known["name"] for known in project["classes"]] == ["ash", "oak", "yew"]
        client.act("undo")
        stream = client.events()
        next(stream)
        process.send_signal(signal.SIGINT)  # while a page listens
        output, errors = process.communicate(timeout=20)
        client.streams[0].close()
    assert process.returncode == 0
    assert "Stopped." in errors
    assert "Traceback" not in errors
    assert client.access.token not in output + errors
    with Session.open(source) as session:
        assert [known.name for known in session.state.classes] == ["ash", "oak"]


def test_a_closed_terminal_ends_it_as_sigterm_does(source):
    with studio(source) as (client, process):
        assert client.get("/api/project").status == 200
        process.send_signal(signal.SIGHUP)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "Traceback" not in errors


def test_two_processes_on_one_source_keep_both_works(source, tmp_path):
    first, second = (Session.open(source, cache=tmp_path / "cache") for _ in range(2))
    with running(first, tmp_path / "cache") as one, running(second, tmp_path / "cache") as two:
        stream = two.events()
        one.act("label", rows=[0, 3], name="ash")
        assert any(kind == "state" and content["version"] == 1 for kind, content in stream)
        two.act("label", rows=[1], name="oak")
        one.act("label", rows=[2], name="yew")
        one.act("none", rows=[5])
        two.wait_for_answers(4)
        told = [client.get("/api/project").json for client in (one, two)]
        one.act("label", rows=[8], name="ash")
        assert two.post("/api/act", {"action": "undo", "version": 4}).status == 409  # not what the user saw last
    for project in told:
        assert [(known["name"], known["examples"]) for known in project["classes"]] == [
            ("ash", 2),
            ("oak", 1),
            ("yew", 1),
        ]
        assert (project["version"], project["n_none"]) == (4, 1)


def test_a_port_that_is_taken_is_told_or_passed_over(source):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = CliRunner().invoke(app, ["studio", str(source), "--port", str(taken.getsockname()[1])])
        assert "Give another --port" in str(done.exception)
    with listen("127.0.0.1", None) as first, listen("127.0.0.1", None) as second:
        ports = {first.getsockname()[1], second.getsockname()[1]}
    assert len(ports) == 2
    assert min(ports) >= USUAL_PORT


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host"])
def test_a_host_that_is_not_this_machine_is_told(source, host):
    done = CliRunner().invoke(app, ["studio", str(source), "--host", host])
    assert f"Cannot listen on {host} (" in str(done.exception)
    assert str(done.exception).endswith("Give an address of this machine as --host, such as 127.0.0.1.")


def test_only_other_hosts_are_warned_about():
    assert [Access(host=host, port=1).is_private for host in ("127.0.0.1", "localhost", "::1")] == [True] * 3
    assert [Access(host=host, port=1).is_private for host in ("0.0.0.0", "::", "192.168.0.2", "mine")] == [False] * 4


def test_help_shows_an_example():
    assert "marginshot studio photos/" in CliRunner().invoke(app, ["studio", "--help"]).output


def test_the_command_that_repeats_an_export_has_all_that_decides_it(source, tmp_path):
    """Issue 31: it left out --examples, --classes and --cache."""
    options = ("--classes", "ash,oak tree", "--cache", str(tmp_path / "my cache"), "--device", "cpu")
    with studio(source, *options) as (client, _):
        client.act("label", rows=[0, 3], name="ash")
        client.act("label", rows=[1], name="oak tree")
        done = client.post("/api/export", {"what": "table", "path": str(tmp_path / "page.csv")})
        assert done.status == 200, done.content
        command = shlex.split(done.json["command"])
    assert command[:3] == ["marginshot", "studio", str(source)]
    assert [*command[3:9]] == [*options]
    first = (tmp_path / "page.csv").read_text()
    again = CliRunner().invoke(app, command[1:])
    assert again.exit_code == 0, again.output
    assert (tmp_path / "page.csv").read_text() == first


def test_examples_are_words_of_that_command():
    from marginshot.cli.studio import _words

    words = _words(Path("photos"), [Path("a b"), Path("c.csv")], {"text": None, "classes": "x,y", "cache": Path("z")})
    assert words == ["photos", "--examples", "a b", "--examples", "c.csv", "--classes", "x,y", "--cache", "z"]
