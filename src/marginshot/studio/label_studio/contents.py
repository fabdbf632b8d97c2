"""The pictures of tasks: read from the folder that Label Studio serves, or fetched from Label Studio alone."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

_LOCAL_FILES = "/data/local-files/"
_MOST_BYTES = 256 * 2**20
_PATIENCE = 60  # seconds
_PER_PAGE = 500  # tasks


class UnavailableError(ValueError):
    """A content that is not available; the message is why."""


class _SameOrigin(urllib.request.HTTPRedirectHandler):
    """Follows redirects to the same server only: a token goes to no other."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urlsplit(newurl)[:2] != urlsplit(req.full_url)[:2]:
            raise UnavailableError(f"is at {urlsplit(newurl).netloc}, and only Label Studio itself is asked")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class LabelStudio:
    """The server of the tasks.

    Parameters
    ----------
    url : str
        Its address; empty where nothing is asked of it.
    token : str
        An access token, of either kind: personal (a JWT, which is exchanged for short ones) or legacy.
    """

    def __init__(self, url: str = "", token: str = "") -> None:
        if url and urlsplit(url).scheme not in ("http", "https"):
            raise ValueError(f"The address of Label Studio begins with http:// or https://; got {url!r}.")
        self.url, self._token, self._access = url.rstrip("/"), token.strip(), ""
        self._opener = urllib.request.build_opener(_SameOrigin())

    @property
    def is_known(self) -> bool:
        """Whether it can be asked."""
        return bool(self.url and self._token)

    def get(self, path: str) -> bytes:
        """What is at a path of the server; raises UnavailableError."""
        whole = urljoin(f"{self.url}/", path)
        if not self.url or urlsplit(whole)[:2] != urlsplit(self.url)[:2]:
            raise UnavailableError(
                f"is at {urlsplit(path).netloc or 'Label Studio'}; give --url, and no other is asked"
            )
        try:
            return self._read(urllib.request.Request(whole, headers=self._headers()))
        except urllib.error.HTTPError as error:
            if error.code == 401 and self._access:
                self._access = ""  # it has run out
                return self._again(whole)
            raise _refused(error, whole) from error
        except (urllib.error.URLError, OSError) as error:
            raise UnavailableError(f"cannot be fetched from {self.url} ({getattr(error, 'reason', error)})") from error

    def tasks(self, project: int) -> Iterator[dict[str, Any]]:
        """Every task of a project, with its annotations."""
        page = 1
        while True:
            content = json.loads(self.get(f"/api/tasks?project={project}&fields=all&page={page}&page_size={_PER_PAGE}"))
            found = content if isinstance(content, list) else content["tasks"]
            yield from found
            if isinstance(content, list) or page * _PER_PAGE >= int(content["total"]):
                return
            page += 1

    def _again(self, whole: str) -> bytes:
        try:
            return self._read(urllib.request.Request(whole, headers=self._headers()))
        except urllib.error.HTTPError as error:
            raise _refused(error, whole) from error

    def _read(self, request: urllib.request.Request) -> bytes:
        with self._opener.open(request, timeout=_PATIENCE) as answer:
            held: bytes = answer.read(_MOST_BYTES + 1)
        if len(held) > _MOST_BYTES:
            raise UnavailableError(f"has more than {_MOST_BYTES:,} bytes")
        return held

    def _headers(self) -> dict[str, str]:
        if not self._token:
            return {}
        if not _is_personal(self._token):
            return {"Authorization": f"Token {self._token}"}
        if not self._access:
            body = json.dumps({"refresh": self._token}).encode()
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{self.url}/api/token/refresh", body, headers)
            self._access = str(json.loads(self._read(request))["access"])
        return {"Authorization": f"Bearer {self._access}"}


class Pictures:
    """Files of pictures that tasks name; fetched ones are in a folder that goes with `close`.

    Parameters
    ----------
    server : LabelStudio
    root : Path, optional
        The folder that Label Studio serves as ``LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT``; files below it are read
        where they are, and no other files.
    """

    def __init__(self, server: LabelStudio, root: Path | None = None) -> None:
        self._server, self._root = server, None if root is None else root.resolve()
        self._folder = tempfile.TemporaryDirectory(prefix="marginshot-")

    def find(self, task: int, told: str) -> Path:
        """Path of the picture of a ``task``, fetched where needed; raises UnavailableError."""
        parts = urlsplit(told)
        if parts.path.endswith(_LOCAL_FILES) and parts.query.startswith("d="):
            name = unquote(parts.query[2:])
            if self._root is not None:
                return self._below_root(name)
        if parts.scheme not in ("", "http", "https"):
            raise UnavailableError(f"is at {parts.scheme}://…, which is not asked; sync it, or serve local files")
        suffix = PurePosixPath(unquote(parts.query or parts.path)).suffix
        address = hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        target = Path(self._folder.name, f"{task}-{address}{suffix[:8] if suffix[1:].isalnum() else ''}")
        if not target.exists():
            held = self._server.get(told)
            target.write_bytes(held)
        return target

    def _below_root(self, name: str) -> Path:
        assert self._root is not None
        path = (self._root / name.lstrip("/")).resolve()
        if not path.is_relative_to(self._root):
            raise UnavailableError(f"is not below {self._root}")
        return path

    def close(self) -> None:
        """Remove what was fetched."""
        self._folder.cleanup()


def _is_personal(token: str) -> bool:
    """Whether a token is a JWT: three parts, the first of them JSON."""
    parts = token.split(".")
    try:
        head = base64.urlsafe_b64decode(parts[0] + "=" * (-len(parts[0]) % 4))
        return len(parts) == 3 and isinstance(json.loads(head), dict)
    except (binascii.Error, ValueError):
        return False


def _refused(error: urllib.error.HTTPError, whole: str) -> UnavailableError:
    if error.code in (401, 403):
        return UnavailableError(f"is refused by Label Studio ({error.code}); is the --token that of a member?")
    return UnavailableError(f"cannot be fetched from {whole} ({error.code})")
