"""Benchmarks are run by hand, and must not rot in between: what they import from the package is there."""

import runpy
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[1] / "benchmarks").rglob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=[script.stem for script in SCRIPTS])
def test_everything_a_benchmark_imports_is_there(script):
    try:
        runpy.run_path(str(script), run_name="imported")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("marginshot"):
            raise
        pytest.skip(f"{error.name} is not installed: group `bench`")
