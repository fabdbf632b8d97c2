from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "sessions"
    monkeypatch.setenv("MARGINSHOT_SESSIONS", str(folder))
    return folder
