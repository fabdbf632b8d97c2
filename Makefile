# Two commands do everything: `make demo` and `make test`. Both create the environment they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench crash fuzz clean

demo: $(VENV)/.core
	$(BIN)/marginshot evaluate digits --shot 1 --shot 5 --methods fs-tmmc,fs-mmc,simpleshot,laplacianshot \
		--way 5 --query 15 --tasks 10000 --seed 0 -j 2 --json result.json --report report.html

test: lint
	$(BIN)/python -m pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/engine.py

# Kills every command at every file-system event of a small run; `make test` at a sample of them.
crash: $(VENV)/.dev
	$(BIN)/python tests/safety/crash.py

# Damages every kind of file we read in 500 ways; `make test` in 12.
fuzz: $(VENV)/.dev
	MARGINSHOT_FUZZ=500 $(BIN)/python -m pytest tests/safety/test_damaged_files.py

$(BIN)/uv:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv

# One stamp per set of packages, so that each is installed once and again when pyproject.toml changes.
$(VENV)/.core: pyproject.toml | $(BIN)/uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable .
	touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[dev,vision-test,text]'
	touch $@

$(VENV)/.bench: pyproject.toml | $(BIN)/uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[dev,vision-test,text,bench]'
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
