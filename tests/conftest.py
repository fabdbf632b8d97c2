import hashlib
import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers share the cores: threads of BLAS that wait for those of another worker spin, which took three times the
    # processor's time of tests that solve. NumPy and SciPy read this once; commands that the tests start do not.
    with pytest.MonkeyPatch.context() as patch:
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            patch.setenv(name, os.environ.get(name, "1"))
        import scipy.linalg  # noqa: F401

from threadpoolctl import threadpool_info, threadpool_limits

ROOT = Path(__file__).parents[1]


def _sources_hash() -> str:
    """Numba's cache notices edits of an entry point's own file, but not of those it takes code or constants from."""
    package = ROOT / "src" / "marginshot"
    compiled = [package / "_lib" / "jit.py"]
    for room in ("batch", "model", "solvers"):
        compiled += sorted((package / room).glob("*.py"))
    digest = hashlib.sha256()
    for path in compiled:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".numba_cache" / _sources_hash()))

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would the commands that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def own_sessions(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test hears what another said, nor tells the user's own sessions anything."""
    monkeypatch.setenv("MARGINSHOT_SESSIONS", str(tmp_path_factory.getbasetemp() / f"sessions-{next(_NUMBERS)}"))


_NUMBERS = itertools.count()


@pytest.fixture
def two_threads() -> Iterator[None]:
    """BLAS has two threads during the test."""
    with threadpool_limits(2, "blas"):
        if not any(pool["num_threads"] == 2 for pool in threadpool_info()):
            pytest.skip("BLAS has one thread only")
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = Path(os.environ.get("MARGINSHOT_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"the shared data is not at {folder}")
    return folder
