# make demo    install, run the whole pipeline on the documentation of installed packages, answer questions
# make test    install, run the tests
# make check   linters and types
# make docs    the book as HTML in docs/_build/html; neither making nor reading it needs a network

PYTHON ?= python3
BIN    := .venv/bin
READY  := .venv/.ready
.PHONY: setup demo test test-all check docs clean
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

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# the docs extra comes here and not with `setup`: who only uses wordpipe need not have it
docs: .venv/.docs
	$(BIN)/python -m sphinx -W -n -q docs docs/_build/html
	@echo "docs/_build/html/index.html"

.venv/.docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

clean:
	rm -rf .venv demo docs/_build
