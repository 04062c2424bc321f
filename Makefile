# Two commands are enough: `make run` opens the dashboard, `make test` checks and tests all that a change needs.
PYTHON ?= python3
PORT ?= 8501
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 5
SEEDS ?= 1 2 3
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist each --max-worker-restart 0 -o console_output_style=classic

# Without byte code every process that a test starts would compile the project anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test test-all tests lint types lint-and-types bench laboratory screenshots clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.installed: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Anamnesis needs Python 3.11 or newer: run make PYTHON=/path/to/python3.11 …" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

run: $(VENV)/.installed ## open the dashboard (PORT=8501)
	@$(BIN)/python -m core serve --port $(PORT)

test: $(VENV)/.installed-dev ## all that a change needs: style and types, and beside them every test but the soaks
	@$(MAKE) --no-print-directory --jobs=2 lint-and-types tests

lint-and-types: lint types

tests: $(VENV)/.installed-dev
	$(PYTEST) -m "not soak"

test-all: test ## the same, then the soaks, a real language model, and property tests with a thousand examples each
	ANAMNESIS_FETCH=1 $(PYTEST) -m "soak or hypothesis or real" --hypothesis-profile=thorough

lint: $(VENV)/.installed-dev ## check the style, and that arrows between the rooms point down only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo --no-cache

types: $(VENV)/.installed-dev ## check the types of core, pages and benchmarks
	$(BIN)/mypy

bench: $(VENV)/.installed-dev ## measure, each figure beside a comparison in the same run
	@for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

laboratory: $(VENV)/.installed-dev ## faults, kills and full disks, counted in a table (SEEDS="1 2 3")
	$(BIN)/python -m tests.laboratory --seeds $(SEEDS)

screenshots: $(VENV)/.installed-dev ## remake the pictures in docs/
	$(BIN)/python docs/make_screenshots.py

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
