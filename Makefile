# make demo    install, search the documentation of installed packages: first answers by word vectors, then a transformer's
# make test    install, run the tests
# make faults  try some 2,000 faults (ONLY=group, SEED=n); prints tried, held, broken
# make check   linters and types
# make docs    the book as HTML in docs/_build/html; neither making nor reading it needs a network
# make stub    write the stub of the public functions anew, after a setting has changed

PYTHON ?= python3
BIN    := .venv/bin
READY  := .venv/.ready
.PHONY: setup demo test test-all faults docs check stub clean
.DEFAULT_GOAL := setup
# pytest keeps the tests whose asserts it has rewritten: each process would rewrite all of them again
unexport PYTHONDONTWRITEBYTECODE

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "wordpipe needs Python 3.11 or newer; try: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[dev,demo,docs]'
	@# compiled here on all cores, which pip does on one; also wordpipe itself, for shells in which Python writes no bytecode
	@$(BIN)/python -m compileall -q -j 0 .venv/lib wordpipe >/dev/null || true
	@touch $@

demo: setup
	$(BIN)/wordpipe run configs/demo.toml --to word-index
	$(BIN)/python benchmarks/demo.py --side "word vectors"
	$(BIN)/wordpipe run configs/demo.toml
	$(BIN)/python benchmarks/demo.py

test: setup
	$(BIN)/python -m pytest -q -m 'not oracle and not slow and not gpu' -n auto --dist loadfile --no-loadscope-reorder

test-all: setup
	$(BIN)/python -m pytest -q -m 'not gpu' --hypothesis-profile=thorough

faults: setup
	$(BIN)/python -m tests.faults $(addprefix --only ,$(ONLY)) --seed $(or $(SEED),1) $(if $(KEEP),--keep $(KEEP))

check: setup stub
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: setup
	$(BIN)/python -m tests.support.pages --generated README.md docs/*.md docs/*/*.md
	$(BIN)/python -m sphinx -W -n -q docs docs/_build/html
	@echo "docs/_build/html/index.html"

stub: setup
	$(BIN)/python -m tests.support.stub

clean:
	rm -rf .venv demo docs/_build
