# Everything runs in .venv, which `make install` makes. Nothing else is installed or changed, but
# for root on Debian, where python3-venv is fetched when the interpreter lacks ensurepip.
#
#   make demo        a cluster on this machine with real jobs, in about 20 seconds
#   make test        everything but the long forms
#   make test-clients  programs that others wrote for LSF, run against a cluster
#   make bench       measures and prints a table; BENCH="noop single" for some of it
#   make swarm       many simulated clusters with faults; SEEDS=0-1999 JOBS=2
#   make chaos       real clusters under load to which everything happens; RUNS=3 SECONDS=20
#   make check       format, lint, types, contracts, unit tests: before every push

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := install
.PHONY: install demo check test test-long test-clients bench swarm chaos docs clean

export LC_ALL := C.UTF-8
BIN := .venv/bin
STAMP := .venv/installed
PYTEST := $(BIN)/python -m pytest -q -p no:cacheprovider
FAST_TESTS := $(wildcard tests/tidy tests/unit tests/scenarios)

install: $(STAMP)

# -B: what the launchers and other users import is compiled once, below, not by whoever comes first.
$(STAMP): pyproject.toml scripts/make-venv
	@scripts/make-venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e '.[dev]'
	@$(BIN)/python -m compileall -q src
	@$(BIN)/xce env > /dev/null
	@touch $(STAMP)
	@echo 'installed into .venv; put the commands on PATH with:  eval "$$(.venv/bin/xce env)"'

demo: install
	@$(BIN)/xce demo

define CHECKS
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(PYTEST) tests/tidy
	$(BIN)/codespell src docs tests examples scripts README.md CHANGELOG.md Makefile
	$(BIN)/lint-imports
	$(BIN)/mypy
endef

check: install
	$(CHECKS)
	$(PYTEST) $(filter-out tests/tidy,$(FAST_TESTS))

# One pytest for all tests, on two processes (many tests wait for real ones), so that its closing line counts all of them and ends the output.
test: install
	$(CHECKS)
	$(PYTEST) -n 2 --dist worksteal -m 'not long' tests

test-long: install
	$(PYTEST) -m long tests

# Programs that others wrote for LSF, from a fresh environment; CLIENTS="-k psij" for some of them.
test-clients: install
	scripts/test-clients $(CLIENTS)

bench: install
	$(BIN)/python bench/run.py $(BENCH)

SEEDS ?= 0-1999
JOBS ?= 2
swarm: install
	@$(BIN)/python -m xce.sim.swarm --seeds $(SEEDS) --jobs $(JOBS) $(ARGS)

RUNS ?= 3
SECONDS ?= 20
chaos: install
	@$(BIN)/python tests/lib/chaos_run.py --runs $(RUNS) --seconds $(SECONDS) $(ARGS)

docs: install
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	$(BIN)/mkdocs build --strict

clean:
	rm -rf .venv build dist site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find src tests -name __pycache__ -prune -exec rm -rf {} +
