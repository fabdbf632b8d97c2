# Two commands do everything: `make demo` and `make test`. Both create the environment they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOWEST := .venv-lowest
EXTRAS := pictures,texts,sounds,heif,studio,evaluate,figures,parquet,tune,scale,vision,text
# What tests of the core use.
CORE := studio,evaluate,figures,parquet,tune,scale
comma := ,

# Commands and workers that the tests start would compile everything they import, each time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: axe demo test lint docs coverage lowest bench results crash fuzz lock audit clean

# Five methods on the same tasks, 5,000 a number of shots, then a thousand pictures labelled from five examples a class.
demo: $(VENV)/.demo
	$(BIN)/python examples/digits_folder.py demo
	$(BIN)/marginshot evaluate digits --shot 1 --shot 5 --tasks 5000 \
		--methods fs-tmmc-auto,fs-tmmc,fs-mmc,laplacianshot,simpleshot --json demo/result.json --report demo/report.html
	$(BIN)/marginshot label demo/pictures --examples demo/examples --encoder pixels --out demo/labelled
	@echo 'Open demo/report.html (the comparison) and demo/labelled/gallery.html (the labelled pictures) in a browser.'

test: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

# The rules of accessibility that the browser tests run; without npm these tests skip.
axe: | $(BIN)/uv
	npm install --silent --no-audit --no-fund --prefix $(VENV)/axe axe-core@4

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site, every example run: docs/_build/html/index.html.
docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going --quiet -b html docs docs/_build/html

# The figure and the lines never run; the page is htmlcov/index.html.
coverage: $(VENV)/.dev
	$(BIN)/python -m pytest --cov --cov-report=term --cov-report=html --cov-report=xml

# The core on the lowest versions that pyproject.toml allows. Old packages meet deprecations in new ones that they build
# on (matplotlib in pyparsing), which are no fault of ours. Left out: the run of all methods, because LinearSVC of
# scikit-learn 1.6 to 1.8 warns there that it did not converge (after FS-TMMC in one process, not alone; cause unknown).
lowest: $(LOWEST)/.installed
	$(LOWEST)/bin/python -m pytest tests -W ignore::DeprecationWarning --ignore=tests/vision --ignore=tests/labelling \
		--deselect tests/cli/test_evaluate.py::test_every_method_runs

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/engine.py

# Tables of docs/results that are older than the code: make results ONLY="folders calibration".
results: $(VENV)/.dev
	$(BIN)/python benchmarks/results.py $(if $(ONLY),--only $(ONLY))

# Kills every command at every file-system event of a small run; `make test` at a sample of them.
crash: $(VENV)/.dev
	$(BIN)/python tests/safety/crash.py
	$(BIN)/python tests/safety/session_kills.py

# Damages every kind of file we read in 500 ways; `make test` in 12.
fuzz: $(VENV)/.dev
	MARGINSHOT_FUZZ=500 $(BIN)/python -m pytest tests/safety/test_damaged_files.py

# One file for all supported Pythons and systems; hashes, but no address of the index it was made with.
lock: | $(BIN)/uv
	$(BIN)/uv pip compile --quiet --universal --upgrade --python-version 3.11 --generate-hashes --no-annotate \
		--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' \
		$(foreach extra,$(subst $(comma), ,$(EXTRAS)),--extra $(extra)) --group dev --group reference --output-file requirements-dev.lock pyproject.toml

audit: | $(BIN)/uv
	$(BIN)/uv tool run pip-audit --strict --disable-pip --requirement requirements-dev.lock

$(BIN)/uv:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv

# One stamp per set of packages, so that each is installed once and again when what it is made from changes.
METADATA := pyproject.toml src/marginshot/__init__.py

$(VENV)/.demo: $(METADATA) | $(BIN)/uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[evaluate,figures,pictures]'
	touch $@

$(VENV)/.dev: $(METADATA) | $(BIN)/uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[$(EXTRAS)]' --group dev --group reference
	touch $@

$(VENV)/.docs: $(METADATA) | $(BIN)/uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[evaluate,figures,parquet,scale,vision,text]' --group docs
	touch $@

$(VENV)/.bench: $(METADATA) | $(BIN)/uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[$(EXTRAS)]' --group dev --group bench
	touch $@

$(LOWEST)/.installed: $(METADATA) | $(BIN)/uv
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) $(LOWEST)
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --editable '.[$(CORE)]' --group dev
	touch $@

clean:
	rm -rf $(VENV) $(LOWEST) .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage* coverage.xml htmlcov docs/_build docs/gallery \
		docs/reference/generated docs/reference/commands.md
