# Carryover. `make` or `make help` lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

# Nothing phones home.
export MLFLOW_DISABLE_TELEMETRY := true
export DO_NOT_TRACK := 1
export HF_HUB_DISABLE_TELEMETRY := 1
export DVC_NO_ANALYTICS := 1

PORT ?= 5000

.PHONY: help setup demo test lint ui sweep repro bench lock

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 14

setup: $(READY) ## make .venv with everything, locked with hashes (once, about 3 minutes)

# A half-made environment is made anew: `ready` is written last.
$(READY): requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

demo: setup ## three models x eight experiments on the built-in world, tracked
	$(BIN)/python -m src.run -m model=toy_s,toy_m,toy_l 'exp=glob(*_to_*)'
	@echo "make ui shows the runs."

test: setup ## all tests
	$(BIN)/python -m pytest

lint: setup ## ruff, mypy strict, import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

ui: setup ## MLflow's pages on 127.0.0.1 (PORT=5000)
	MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false $(BIN)/mlflow ui --backend-store-uri sqlite:///mlruns/mlflow.db --host 127.0.0.1 --port $(PORT)

sweep: setup ## any sweep: make sweep ARGS="model=toy_s,toy_m 'exp=glob(*)'"
	$(BIN)/python -m src.run -m $(ARGS)

repro: ## next: the DVC pipeline
	@echo "make repro: the DVC pipeline is next; there is none yet." >&2; exit 1

bench: ## next: benchmarks
	@echo "make bench: benchmarks are next; there are none yet." >&2; exit 1

lock: ## resolve pyproject.toml anew into requirements.txt (needs uv)
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url --no-emit-find-links pyproject.toml --group dev -o requirements.txt
