# make demo    install, run the whole pipeline on the documentation of installed packages, answer questions
# make test    install, run the tests
# make faults  try some 2,000 faults (ONLY=group, SEED=n); prints tried, held, broken
# make check   linters and types

PYTHON ?= python3
BIN    := .venv/bin
READY  := .venv/.ready
.PHONY: setup demo test test-all faults check clean
.DEFAULT_GOAL := setup

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "wordpipe needs Python 3.11 or newer; try: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,demo]'
	@touch $@

demo: setup
	$(BIN)/wordpipe run configs/demo.toml
	$(BIN)/python benchmarks/demo.py

test: setup
	$(BIN)/python -m pytest -q -n auto --dist loadfile --no-loadscope-reorder

test-all: setup
	$(BIN)/python -m pytest -q -m 'not gpu' --hypothesis-profile=thorough

faults: setup
	$(BIN)/python -m tests.faults $(addprefix --only ,$(ONLY)) --seed $(or $(SEED),1) $(if $(KEEP),--keep $(KEEP))

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf .venv demo
