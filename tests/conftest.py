import hashlib
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def _compiled_sources_hash() -> str:
    """Numba's cache notices edits of the file an entry point stands in, but not of the files it calls into."""
    digest = hashlib.sha256()
    for path in [ROOT / "src" / "marginshot" / "_jit.py", *sorted((ROOT / "src").rglob("*_compiled.py"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".numba_cache" / _compiled_sources_hash()))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = Path(os.environ.get("MARGINSHOT_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"the shared data is not at {folder}")
    return folder
