# Two commands are enough: `make run` opens the dashboard, `make test` runs every check and test.
PYTHON ?= python3
PORT ?= 8501
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help run test check lint types soak bench screenshots clean

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

test: $(VENV)/.installed-dev lint types ## check style and types, then run every test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not soak"

lint: $(VENV)/.installed-dev ## check the style, and that arrows between the rooms point down only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo --no-cache

types: $(VENV)/.installed-dev ## check the types of core
	$(BIN)/mypy

soak: $(VENV)/.installed-dev ## the slow tests
	$(BIN)/python -m pytest -m soak

bench: $(VENV)/.installed-dev ## measure, each figure beside a comparison in the same run
	@for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

screenshots: $(VENV)/.installed-dev ## remake the pictures in docs/
	$(BIN)/python docs/make_screenshots.py

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
