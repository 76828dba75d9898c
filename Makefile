# Carryover. `make` or `make help` lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
STORE ?= sqlite:///mlruns/mlflow.db

# Nothing phones home.
export MLFLOW_DISABLE_TELEMETRY := true
export DO_NOT_TRACK := 1
export HF_HUB_DISABLE_TELEMETRY := 1
export DVC_NO_ANALYTICS := 1
export SE_AVOID_STATS := true

PORT ?= 5000
# Of make serve. Not from the environment, where HOST is many a shell's name of the machine.
HOST := 127.0.0.1
DATABASE :=
ARTIFACTS :=
NAMES :=

.PHONY: help setup system demo demo-truth demo-generate test test-thorough validate audit wheel-test lint ui serve sweep report data repro bench lock

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 14

setup: $(READY) ## make .venv with everything, locked with hashes (once, about 3 minutes)

# An environment is made anew where it is half made (`ready` is written last) or was made for
# another folder: scripts in it name the folder.
ifneq ($(CURDIR),$(shell cat $(READY) 2>/dev/null))
.PHONY: $(READY)
endif
$(READY): requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@echo "$(CURDIR)" > $@

# Never an error: tests that need what is not there skip, with the reason.
system: ## Debian's packages of tests: chromium, SLURM, PostgreSQL; as root or with sudo
	@wanted=""; \
	command -v chromium >/dev/null && command -v chromedriver >/dev/null || wanted="chromium chromium-driver"; \
	command -v sbatch >/dev/null && test -x /usr/sbin/slurmctld && test -x /usr/sbin/slurmd && test -x /usr/sbin/munged \
	  || wanted="$$wanted slurm-wlm munge"; \
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || wanted="$$wanted postgresql"; \
	if [ -z "$$wanted" ]; then echo "chromium, chromedriver, SLURM and PostgreSQL are here."; \
	elif ! command -v apt-get >/dev/null; then echo "No apt-get here: install by hand: $$wanted"; \
	else \
	  if [ "$$(id -u)" = 0 ]; then as=""; else as="sudo -n"; fi; \
	  { $$as apt-get update -qq && $$as env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y \
	    --no-install-recommends $$wanted >/dev/null; } \
	  || echo "$$wanted could not be installed: tests that need it skip."; \
	fi

demo: setup ## three models x eight experiments on the built-in world, tracked
	@echo "make ui shows the runs, while they are made and afterwards. The report's path is said at the end."
	$(BIN)/python -m src.run -m model=toy_s,toy_m,toy_l 'exp=glob(*_to_*)'

demo-truth: setup ## what is planted against what is measured: 12 toys
	$(BIN)/python -m validation.truth model=toy_m $(ARGS)

# Recorded answers, where they were fetched: make data ARGS="fetch subtler".
recorded = $(wildcard data/raw/subtler/$(1))
demo-generate: setup ## shipped items put to a language model made on the spot; recorded answers where they are here
	$(BIN)/python -m src.generate -m llm=tiny,planted task=subtler_en,subtler_zh $(ARGS)
	$(if $(call recorded,llama2_en.csv),$(BIN)/python -m src.generate -m llm=recorded llm.path=$(call recorded,llama2_en.csv))
	$(if $(call recorded,qwen2.5_zh.csv),$(BIN)/python -m src.generate -m llm=recorded \
	  llm.path=$(call recorded,qwen2.5_zh.csv) task=subtler_zh task.stereotype=positive)

# Processes that test beside each other, a file each; every one computes on one core.
WORKERS ?= 2
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -rfEs
test: setup ## the commit suite: every room, each study once, quick forms of faults and servers (7 minutes)
	$(PYTEST) --durations=30 $(ARGS)

test-thorough: setup ## the rest: kills, remotes, browser, SLURM, servers, determinism, fuzzing (or ARGS=tests/faults)
	$(PYTEST) -m thorough --durations=30 $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m tests.fuzz seconds=$(FUZZ))

# Seconds for each parser: about 5 minutes in all.
FUZZ := 5
validate: setup ## is it right? calibration, planted truth, every parser fuzzed for a minute: hours
	$(BIN)/python -m validation.calibration
	$(BIN)/python -m validation.truth --output docs/truth model=toy_m
	$(BIN)/python -m tests.fuzz seconds=60

AUDIT ?= $(BIN)/pip-audit
# Never an error where nothing can be asked: on a machine without network that would say nothing of the packages.
audit: setup ## known holes of the locked packages (pip-audit, where it is installed and reaches its data)
	@if ! command -v $(AUDIT) >/dev/null; then \
	  echo "pip-audit is not here (pip install pip-audit, in an environment of its own; then make audit AUDIT=FILE)."; \
	else \
	  found=0; said=$$($(AUDIT) --require-hashes --disable-pip -r requirements.txt 2>&1) || found=$$?; echo "$$said"; \
	  if [ $$found != 0 ] && ! grep -qE "Found [0-9]+ known" <<< "$$said"; then \
	    echo "pip-audit does not reach its data: nothing is known of the packages, good or bad."; found=0; \
	  fi; \
	  skipped=$$(grep -c "could not be audited" <<< "$$said" || true); \
	  if [ $$skipped != 0 ]; then echo "Of $$skipped packages nothing is known, good or bad."; fi; exit $$found; \
	fi

wheel-test: setup ## the wheel, installed where no checkout is: entries, a small sweep, an answering model
	$(BIN)/python -m pytest -rs -m "thorough or not thorough" tests/test_wheel.py

lint: setup ## ruff, mypy strict, import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

ui: setup ## MLflow's pages on 127.0.0.1 (PORT=5000)
	$(BIN)/python -m src.tracking $(STORE)
	MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false $(BIN)/mlflow ui --backend-store-uri $(STORE) --host 127.0.0.1 --port $(PORT)

serve: setup ## MLflow's server for several machines (DATABASE=, ARTIFACTS=, HOST=127.0.0.1, PORT=5000, NAMES=)
	$(BIN)/python -m src.tracking.serve database='$(DATABASE)' artifacts='$(ARTIFACTS)' \
	  host='$(HOST)' port='$(PORT)' names='$(NAMES)'

sweep: setup ## any sweep: make sweep ARGS="model=toy_s,toy_m 'exp=glob(*)'"
	$(BIN)/python -m src.run -m $(ARGS)

report: setup ## a sweep's report drawn again: make report ARGS="sweep=latest dataset=demo output=DIR"
	$(BIN)/python -m src.report $(ARGS)

data: setup ## which published datasets are here; make data ARGS="fetch oasis nrc_vad"
	$(BIN)/python -m src.stimuli $(ARGS)

repro: setup ## the DVC pipeline: what params.yaml says, from nothing to docs/repro
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/dvc repro

bench: setup ## what the work costs, beside those that do the same; an hour (ARGS="peers --quick")
	$(BIN)/python -m benchmarks $(ARGS)

lock: ## resolve pyproject.toml anew into requirements.txt (needs uv)
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url --no-emit-find-links pyproject.toml --group dev -o requirements.txt
