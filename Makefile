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
.PHONY: help run test test-all tests browser lint types lint-and-types lock bench laboratory screenshots clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
FROM_LOCK = $(PIP) --no-deps --require-hashes -r

$(VENV)/.installed: requirements.lock requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Anamnesis needs Python 3.11 or newer: run make PYTHON=/path/to/python3.11 …" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(FROM_LOCK) requirements.lock
	$(PIP) -r requirements.txt
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock $(VENV)/.installed
	$(FROM_LOCK) requirements-dev.lock
	@touch $@

# The locks name every package with the hashes of its files, for all systems and versions of Python. Only torch and its
# drivers are missing: which build fits (CPU, CUDA, ROCm) depends on the machine, and hashes would force the one of the
# public index. So the second call of pip above installs them, in the version of requirements.txt.
TORCH = torch|triton|cuda-|nvidia-
COMPILE = $(VENV)/lock/bin/uv pip compile --no-config --quiet --universal --python-version 3.11 --generate-hashes \
	--annotation-style line --custom-compile-command "make lock (all but torch: see Makefile)" $(if $(UPGRADE),--upgrade)
# the packages of a lock (from stdin) whose names begin so, as options that leave them out
LEAVE_OUT = sed -nE 's/^(($(1))[a-z0-9-]*)==.*/--no-emit-package \1/p'

$(VENV)/lock/bin/uv: Makefile
	$(PYTHON) -m venv --clear $(VENV)/lock
	$(VENV)/lock/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.9
	@touch $@

lock: $(VENV)/lock/bin/uv ## renew the locks after a change of requirements*.txt (UPGRADE=1: and what those bring along)
	$(COMPILE) requirements.txt > $(VENV)/lock/all
	$(COMPILE) requirements.txt -o requirements.lock $$($(call LEAVE_OUT,$(TORCH)) < $(VENV)/lock/all)
	for part in dev server; do \
		$(COMPILE) requirements-$$part.txt -c requirements.lock -o requirements-$$part.lock \
			$$($(call LEAVE_OUT,[a-z]) < $(VENV)/lock/all) || exit 1; \
	done
	for lock in requirements*.lock; do \
		sed '/^# The following packages were excluded/,$$d' $$lock > $(VENV)/lock/trimmed && cp $(VENV)/lock/trimmed $$lock; \
	done

run: $(VENV)/.installed ## open the dashboard (PORT=8501)
	@$(BIN)/python -m core serve --port $(PORT)

test: browser ## all that a change needs: style and types, and beside them every test but the soaks
	@$(MAKE) --no-print-directory --jobs=2 lint-and-types tests

lint-and-types: lint types

browser: $(VENV)/.installed-dev
	@$(BIN)/python -m tests.support.chromium

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
