# The two commands that matter: `make demo` and `make test`. Both need only Python 3.11, make and git.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# The first Python on the path that is new enough; `make PYTHON=… test` names another.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

# Tests run in two processes; more threads than that would only get in each other's way.
PROCESSES ?= 2

# Each prints ratios against a peer; the whole evaluation is `nextclick paper`, and takes hours.
BENCHMARKS := baselines memory recommendation training service

.DEFAULT_GOAL := help
.PHONY: help demo test lint types layers tests docs format bench soak install wheel clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ## train and compare methods on a synthetic shop, and write a report
	$(BIN)/nextclick demo

test: lint types layers ## everything that checks the project
	@$(MAKE) --no-print-directory tests

lint: $(READY) ## check style and format
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(READY) ## check types, strictly
	$(BIN)/mypy

layers: $(READY) ## check that imports go down only
	$(BIN)/lint-imports

tests: $(READY) ## run the tests and the examples in docstrings
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(PROCESSES)

docs: $(READY) ## build the documentation into site/
	$(BIN)/mkdocs build --strict

format: $(READY) ## mend style and format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(READY) ## measure against peers; prints a ratio each
	for name in $(BENCHMARKS); do $(BIN)/python benchmarks/$$name.py || exit 1; done

install: $(READY) ## make the environment in .venv

wheel: $(READY) ## build dist/nextclick-*.whl
	$(BIN)/python -m pip wheel --no-deps --wheel-dir dist --build-constraint constraints.txt .

soak: $(READY) ## the tests of reliability at full size: hours; NEXTCLICK_KILLS=… and so on size them
	mkdir -p build
	NEXTCLICK_SOAK=1 NEXTCLICK_FIGURES=build/soak.jsonl OMP_NUM_THREADS=1 \
		$(BIN)/pytest -q -s tests/reliability

clean: ## remove everything that these targets make
	rm -rf $(VENV) build dist site nextclick-demo .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed, and none is on the PATH" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep '^pip==' constraints.txt)"
	$(BIN)/python -m pip install --quiet -c constraints.txt --build-constraint constraints.txt \
		--group dev --group docs -e .
	touch $(READY)
