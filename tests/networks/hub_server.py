"""A Hugging Face hub on this machine, as far as a client asks one."""

from __future__ import annotations

import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath

LARGE = 1_000  # bytes from which a file is known by its SHA-256


class Hub:
    """Repositories by name: each a list of commits, the newest last, each a dict of contents by file name."""

    def __init__(self) -> None:
        self.repositories: dict[str, list[dict[str, bytes]]] = {}
        self.requests: list[str] = []
        self.damaged: set[str] = set()  # names of files that arrive with another content
        self.sizes: dict[str, int] = {}  # names of files whose size is told wrongly
        self.address = ""

    def commit(self, name: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        made = [(commit_of(name, number), files) for number, files in enumerate(self.repositories.get(name, []))]
        if revision == "main" and made:
            return made[-1]
        return next((one for one in made if one[0] == revision), None)

    def describe(self, name: str, commit: str, files: dict[str, bytes]) -> bytes:
        siblings = []
        for file, content in files.items():
            sibling = {"rfilename": file, "size": self.sizes.get(file, len(content)), "blobId": git_hash(content)}
            if len(content) >= LARGE:
                sibling["lfs"] = {"sha256": sha256(content), "size": len(content), "pointerSize": 100}
            siblings.append(sibling)
        return json.dumps({"id": name, "modelId": name, "sha": commit, "siblings": siblings}).encode()


def commit_of(name: str, number: int) -> str:
    return hashlib.sha1(f"{name} {number}".encode()).hexdigest()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def git_hash(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@contextmanager
def hub_running():
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self, body: bool = True) -> None:
            path = self.path.partition("?")[0]
            hub.requests.append(path)
            parts = PurePosixPath(path).parts[1:]
            if parts[:2] == ("api", "models"):
                name, revision = "/".join(parts[2:4]), parts[5] if len(parts) > 5 else "main"
                found = hub.commit(name, revision)
                code = "RepoNotFound" if name not in hub.repositories else "RevisionNotFound"
                content = None if found is None else hub.describe(name, *found)
            else:
                name, found = "/".join(parts[:2]), hub.commit("/".join(parts[:2]), parts[3])
                code, file = "EntryNotFound", "/".join(parts[4:])
                content = None if found is None else found[1].get(file)
                if content is not None and file in hub.damaged:
                    content = bytes(len(content))
            if content is None:
                self.send_response(404)
                self.send_header("X-Error-Code", code)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            if found is not None:
                self.send_header("X-Repo-Commit", found[0])
                self.send_header("ETag", f'"{sha256(content)}"')
            self.end_headers()
            if body:
                self.wfile.write(content)

        def do_HEAD(self) -> None:
            self.do_GET(body=False)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
