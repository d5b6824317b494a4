# Two commands are enough on a machine with Python 3.11+, git and make: `make demo` and `make test`.

.DEFAULT_GOAL := help
# The stages of `test` run in their order, and the first that fails ends it, also under `make -j`.
.NOTPARALLEL:

RUN := .venv/bin/python -m

# Spark's workers must run the environment's Python, the pinned Spark must win over one installed on the machine, and
# nothing needs to be reached from another machine.
export PYSPARK_PYTHON := $(CURDIR)/.venv/bin/python
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)
export SPARK_LOCAL_IP := 127.0.0.1
unexport SPARK_HOME PYTHONHOME PYTHONPATH

# These start clusters, brokers or browsers of their own and wait most of the time.
PARALLEL := tests/live/test_exactness.py $(wildcard tests/live/test_flink_*.py) tests/local tests/browser

.PHONY: help setup setup-tests demo test lint types imports test-fast test-live soak docs bench format clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Make .venv from the pinned requirements; done by the other targets too
	@scripts/setup

demo: setup ## Watch Headgate scale a streaming job
	@.venv/bin/headgate demo

test: lint types imports test-fast test-live ## Run every check, as CI does
	@echo "== all checks passed"

lint: setup ## Check style and formatting
	@echo "== lint: ruff"
	@$(RUN) ruff check --quiet
	@$(RUN) ruff format --check --quiet
	@echo "== lint: the language of the tree"
	@.venv/bin/python scripts/check_language.py

types: setup ## Check types
	@echo "== types: mypy"
	@$(RUN) mypy --no-error-summary

imports: setup ## Check that imports point one way
	@echo "== imports: import-linter"
	@.venv/bin/lint-imports --no-logo

setup-tests:
	@scripts/setup tests

test-fast: setup-tests ## Run the tests that need neither a cluster nor a browser
	@echo "== test-fast: pytest, three at a time, for some wait"
	@$(RUN) pytest -q -n 3 -m "not live and not browser and not soak"

test-live: setup ## Run the tests that need a cluster or a browser
	@echo "== test-live: pytest on real Spark, one at a time, parallel to those with servers of their own"
	@log=$$(mktemp); \
	$(RUN) pytest -q -n 0 -m "(live or browser) and not soak" $(PARALLEL) >"$$log" 2>&1 & parallel=$$!; \
	$(RUN) pytest -q -n 0 -m "live and not soak" tests/live $(PARALLEL:%=--ignore=%); passed=$$?; \
	wait $$parallel || passed=1; cat "$$log"; rm -f "$$log"; exit $$passed

soak: setup-tests ## Run the longer proofs on real Spark, which make test leaves out
	@echo "== soak: pytest on real Spark, one at a time"
	@$(RUN) pytest -v -n 0 -m soak --durations=0

docs: setup ## Fill in what the documentation takes from the code, and build it into site/
	@echo "== docs: settings tables and plots"
	@.venv/bin/python scripts/make_docs.py
	@echo "== docs: mkdocs, strictly"
	@$(RUN) mkdocs build --strict --quiet

bench: setup ## Measure speed and size
	@echo "== bench: pytest over benchmarks/"
	@$(RUN) pytest -q -n 0 -s -o python_files='bench_*.py' -o python_functions='bench_*' benchmarks

format: setup ## Format the code and apply the safe fixes
	@$(RUN) ruff check --fix --quiet
	@$(RUN) ruff format --quiet

clean: ## Remove the environment, the caches and the builds
	@rm -rf .venv .setup.log .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist site
	@find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
