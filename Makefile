# Two commands are enough: `make run` opens the dashboard, `make test` checks and tests a change.
PYTHON ?= python3
PORT ?= 8501
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= $(shell nproc 2>/dev/null || echo 2)
SEEDS ?= 1 2 3
PACKAGE ?= core
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --max-worker-restart 0 -o console_output_style=classic

# Without byte code every process that a test starts would compile the project again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test test-all real tests browser quick lint types lint-and-types lock bench figures laboratory screenshots clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
FROM_LOCK = $(PIP) --no-deps --require-hashes -r

$(VENV)/.installed: requirements.lock requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 4))' || \
		{ echo "Anamnesis needs Python 3.11.4 or newer: run make PYTHON=/path/to/python3.11 …" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(FROM_LOCK) requirements.lock
	$(PIP) -r requirements.txt
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock $(VENV)/.installed
	$(FROM_LOCK) requirements-dev.lock
	@touch $@

# The locks name every package with the hashes of its files, for all systems and versions of Python. Only torch and its
# drivers are missing: the right build (CPU, CUDA, ROCm) depends on the machine, and hashes would force the build of the
# public index. The second call of pip above installs them, in the version of requirements.txt.
TORCH = torch|triton|cuda-|nvidia-
COMPILE = $(VENV)/lock/bin/uv pip compile --no-config --quiet --universal --python-version 3.11 --generate-hashes \
	--annotation-style line --custom-compile-command "make lock (all but torch: see Makefile)" $(if $(UPGRADE),--upgrade)
# Prints options that leave out the packages of a lock (from stdin) whose names begin with $(1).
LEAVE_OUT = sed -nE 's/^(($(1))[a-z0-9-]*)==.*/--no-emit-package \1/p'

$(VENV)/lock/bin/uv: Makefile
	$(PYTHON) -m venv --clear $(VENV)/lock
	$(VENV)/lock/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.9
	@touch $@

lock: $(VENV)/lock/bin/uv ## renew the locks after a change of requirements*.txt (UPGRADE=1: also indirect dependencies)
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

test: browser ## check style, imports and types, and run every test that a change needs
	@$(MAKE) --no-print-directory --jobs=2 lint-and-types
	@$(MAKE) --no-print-directory tests

lint-and-types: lint types

browser: $(VENV)/.installed-dev
	@$(BIN)/python -m tests.support.chromium

tests: $(VENV)/.installed-dev
	$(PYTEST) -m "not slow"

test-all: test ## also the slow tests, a real language model, and a thousand examples for each property
	$(PIP) -r requirements-ray.txt
	ANAMNESIS_FETCH=1 $(PYTEST) -m "slow or hypothesis or real" --hypothesis-profile=thorough

real: $(VENV)/.installed-dev ## every framework and form with the model at an address (ANAMNESIS_REAL=http://…/v1)
	$(BIN)/python -m pytest -q -m real tests/real/test_frameworks_and_forms.py

quick: $(VENV)/.installed-dev ## fast loop for one package: its style, all imports and types, its tests (PACKAGE=core/stats)
	$(BIN)/ruff check $(PACKAGE) tests/$(PACKAGE)
	$(BIN)/ruff format --check $(PACKAGE) tests/$(PACKAGE)
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -m "not slow" tests/$(PACKAGE)

lint: $(VENV)/.installed-dev ## check the style, and that imports between packages point down only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo --no-cache

types: $(VENV)/.installed-dev ## check the types of core, pages and benchmarks
	$(BIN)/mypy

bench: $(VENV)/.installed-dev ## measure, each figure next to a comparison in the same run
	@for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

figures: $(VENV)/.installed-dev ## compute every figure and prompt hash, and compare them with the stored ones
	@$(BIN)/python benchmarks/figures.py

laboratory: $(VENV)/.installed-dev ## faults, kills and full disks, counted in a table (SEEDS="1 2 3")
	$(BIN)/python -m tests.laboratory --seeds $(SEEDS)

screenshots: $(VENV)/.installed-dev ## remake the pictures in docs/
	$(BIN)/python docs/make_screenshots.py

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
