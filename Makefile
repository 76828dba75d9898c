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
DATABASE := sqlite:///mlruns/server/mlflow.db
ARTIFACTS := mlruns/server/artifacts
NAMES :=

.PHONY: help setup system demo demo-truth demo-generate test test-thorough test-exhaustive calibration validate audit wheel-test lint ui serve sweep report data repro bench docs pictures lock

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 14

setup: $(READY) ## make .venv with all packages, locked with hashes (once, about 3 minutes)

# Make the environment again if it is incomplete (`ready` is written last) or belongs to another folder:
# its scripts contain the folder's path.
ifneq ($(CURDIR),$(shell cat $(READY) 2>/dev/null))
.PHONY: $(READY)
endif
$(READY): requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 4))' \
	  || { echo "Python 3.11.4 or newer is needed: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@echo "$(CURDIR)" > $@

# Never fails: tests that need a missing program skip and say why.
system: ## install what some tests need on Debian: Chromium, SLURM, PostgreSQL (as root or with sudo)
	@wanted=""; \
	command -v chromium >/dev/null && command -v chromedriver >/dev/null || wanted="chromium chromium-driver"; \
	command -v sbatch >/dev/null && test -x /usr/sbin/slurmctld && test -x /usr/sbin/slurmd && test -x /usr/sbin/munged \
	  || wanted="$$wanted slurm-wlm munge"; \
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || wanted="$$wanted postgresql"; \
	if [ -z "$$wanted" ]; then echo "chromium, chromedriver, SLURM and PostgreSQL are installed."; \
	elif ! command -v apt-get >/dev/null; then echo "apt-get not found. Install by hand: $$wanted"; \
	else \
	  if [ "$$(id -u)" = 0 ]; then as=""; else as="sudo -n"; fi; \
	  { $$as apt-get update -qq && $$as env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y \
	    --no-install-recommends $$wanted >/dev/null; } \
	  || echo "$$wanted could not be installed: tests that need it skip."; \
	fi

demo: setup ## run three models x eight experiments on the built-in world, with a report
	@echo "make ui shows the runs, during the sweep and afterwards. The last line is the path of the report."
	$(BIN)/python -m src.run -m model=toy_s,toy_m,toy_l 'exp=glob(*_to_*)'

# Toys of the claims on planted bias: trained three times as long as those of the demo.
TRUTH := model=toy_m model.steps=1200
# The same kind of toys, in smaller variants of the world.
TRUTH_PEOPLE := model=toy_m model.steps=2400 faces.per_group=300 protocol.attribute_draws=0 protocol.property_draws=0
TRUTH_LANGUAGES := model=toy_m model.steps=1200 faces.per_group=150 scenes.count=300 words.count=300 protocol.k=60
TRUTH_LANGUAGES += protocol.placebo=0 protocol.attribute_draws=0 protocol.property_draws=0
demo-truth: setup ## compare measured with planted bias: 33 toy models
	$(BIN)/python -m validation.truth $(TRUTH) $(ARGS)
	$(BIN)/python -m validation.truth.people $(TRUTH_PEOPLE) $(ARGS)
	$(BIN)/python -m validation.truth.languages $(TRUTH_LANGUAGES) $(ARGS)

# Recorded answers, if downloaded: make data ARGS="fetch subtler".
recorded = $(wildcard data/raw/subtler/$(1))
demo-generate: setup ## run the items of subtler biases on a tiny language model, and on recorded answers if downloaded
	$(BIN)/python -m src.generate -m llm=tiny,planted task=subtler_en,subtler_zh $(ARGS)
	$(if $(call recorded,llama2_en.csv),$(BIN)/python -m src.generate -m llm=recorded llm.path=$(call recorded,llama2_en.csv))
	$(if $(call recorded,qwen2.5_zh.csv),$(BIN)/python -m src.generate -m llm=recorded \
	  llm.path=$(call recorded,qwen2.5_zh.csv) task=subtler_zh task.stereotype=positive)

# Concurrent test processes, each with one thread; a file is tested by one process.
WORKERS ?= 2
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -rfEs
test: setup ## run the commit suite: every package, each study once, short forms of faults and servers (25 minutes on slow cores)
	$(PYTEST) --durations=30 $(ARGS)

test-thorough: setup ## run the other tests: kills, remotes, browser, SLURM, servers, determinism, fuzzing (or ARGS=tests/faults)
	$(PYTEST) -m "thorough and not exhaustive" --durations=30 $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m tests.fuzz seconds=$(FUZZ))

test-exhaustive: setup ## run the long forms of thorough tests: many kills, worlds, all experiments of each class (or ARGS=tests/faults)
	$(PYTEST) -m exhaustive --durations=30 $(ARGS)

calibration: setup ## check level, ρ, p-values and intervals on simulated worlds, into docs/calibration (ARGS=--quick)
	OMP_NUM_THREADS=1 $(BIN)/python -m validation.calibration $(ARGS)

# Seconds of fuzzing per parser: about 3 minutes in all, most of them to start.
FUZZ := 1
validate: calibration test-exhaustive ## check the instrument: calibration, long tests, planted truth, a minute of fuzzing per parser (hours)
	$(BIN)/python -m validation.truth --output docs/truth $(TRUTH)
	$(BIN)/python -m validation.truth.people --output docs/truth $(TRUTH_PEOPLE)
	$(BIN)/python -m validation.truth.languages --output docs/truth $(TRUTH_LANGUAGES)
	$(BIN)/python -m tests.fuzz seconds=60

AUDIT ?= $(BIN)/pip-audit
# Does not fail without network: then nothing is known about the packages.
audit: setup ## list known vulnerabilities of the locked packages (needs pip-audit and network)
	@if ! command -v $(AUDIT) >/dev/null; then \
	  echo "pip-audit not found. Install it in a separate environment, then: make audit AUDIT=FILE."; \
	else \
	  failed=0; output=$$($(AUDIT) --require-hashes --disable-pip -r requirements.txt 2>&1) || failed=$$?; echo "$$output"; \
	  if [ $$failed != 0 ] && ! grep -qE "Found [0-9]+ known" <<< "$$output"; then \
	    echo "pip-audit cannot reach its database. The packages were not checked."; failed=0; \
	  fi; \
	  skipped=$$(grep -c "could not be audited" <<< "$$output" || true); \
	  if [ $$skipped != 0 ]; then echo "$$skipped packages were not checked."; fi; exit $$failed; \
	fi

wheel-test: setup ## test the wheel outside a checkout: commands, a small sweep, a generative model
	$(BIN)/python -m pytest -rs -m "thorough or not thorough" tests/test_wheel.py

lint: setup ## run ruff, mypy, the import contracts, and the checks of names, docstrings and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/words.py
	git ls-files -z | xargs -0 $(BIN)/codespell

ui: setup ## show the runs in MLflow on 127.0.0.1 (PORT=5000)
	$(BIN)/python -m src.tracking $(STORE)
	@echo "Open http://127.0.0.1:$(PORT) and choose Model training at the top left (docs/tracking.md)."
	MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false $(BIN)/mlflow ui --backend-store-uri $(STORE) --host 127.0.0.1 --port $(PORT)

serve: setup ## start an MLflow server for several machines (DATABASE=, ARTIFACTS=, HOST=127.0.0.1, PORT=5000, NAMES=)
	@case '$(DATABASE)' in *://*:*@*) echo "DATABASE contains a password, which every process of this machine could read." \
	  "Leave it out, and set PGPASSWORD or ~/.pgpass." >&2; exit 1;; esac; \
	names='$(or $(NAMES),$(HOST):$(PORT))'; allow=(); \
	case '$(HOST):$(NAMES)' in 0.0.0.0:|:::) echo "HOST=$(HOST) is every address of this machine. Set the names under" \
	  "which clients reach the server, the only ones that it accepts: NAMES=HOST:$(PORT),..." >&2; exit 1;; esac; \
	echo "Clients: tracking=server tracking.uri=http://$${names%%,*}"; \
	case '$(HOST)' in 127.0.0.1|localhost|::1) ;; *) \
	  echo "EXPOSED: the server has no password. Anyone who reaches this address can read, change and delete all runs and" \
	    "artifacts, without encryption. Use it only in a network that you trust, or put a proxy with a password and a" \
	    "certificate in front of it (docs/server.md)."; \
	  allow=(--allowed-hosts "$$names,127.0.0.1:$(PORT),localhost:$(PORT)" \
	    --cors-allowed-origins "$$(sed -E 's#[^,]+#http://&,https://&#g' <<< "$$names")");; \
	esac; \
	mkdir -p mlruns/server; \
	export MLFLOW_BACKEND_STORE_URI='$(patsubst postgresql://%,postgresql+psycopg2://%,$(DATABASE))'; \
	export MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false MLFLOW_ENABLE_PROXY_MULTIPART_DOWNLOAD=false; \
	export MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD=false; \
	exec $(BIN)/mlflow server --artifacts-destination '$(ARTIFACTS)' --host '$(HOST)' --port '$(PORT)' --workers 2 \
	  "$${allow[@]}"

sweep: setup ## run a sweep: make sweep ARGS="model=toy_s,toy_m 'exp=glob(*)'"
	$(BIN)/python -m src.run -m $(ARGS)

report: setup ## draw the report of a sweep again: make report ARGS="sweep=latest dataset=demo output=DIR"
	$(BIN)/python -m src.report $(ARGS)

data: setup ## list the published datasets, or download them: make data ARGS="fetch oasis nrc_vad"
	$(BIN)/python -m src.stimuli $(ARGS)

# The repository's own remote is made anew, so that it contains this state of the demo alone. Nothing is pushed to another
# default remote, and nothing of another dataset.
repro: setup ## run the DVC pipeline of params.yaml, up to docs/repro; for the demo, renew .dvc/remote
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/dvc repro
	@if grep -qx "dataset: demo" params.yaml && [ "$$($(BIN)/dvc remote default)" = repository ] \
	  && $(BIN)/dvc remote list | grep -F "$(CURDIR)/.dvc/remote " >/dev/null; then \
	  rm -rf .dvc/remote; $(BIN)/dvc push dvc.yaml; \
	fi

bench: setup ## measure speed and memory, next to comparable programs; an hour (ARGS="peers --quick")
	$(BIN)/python -m benchmarks $(ARGS)

docs: setup ## build the manual as a site into outputs/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "Open outputs/site/index.html. Search needs a server: $(BIN)/python -m http.server --bind 127.0.0.1 --directory outputs/site"

pictures: setup ## take the pictures of the manual from the runs of make demo (needs Chromium: make system)
	$(BIN)/python .ci/pictures.py $(STORE)

lock: ## resolve pyproject.toml into requirements.txt (needs uv)
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url --no-emit-find-links pyproject.toml --group dev -o requirements.txt
