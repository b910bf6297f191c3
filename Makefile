# What can be done here: `make` alone says it. Each target does its own set-up in .venv/ and repeats none of it.

SHELL := /bin/bash
.DEFAULT_GOAL := help

VENV := $(or $(EVENTFLINK_VENV),.venv)
BIN := $(VENV)/bin
BOOTSTRAP ?=

# So many processes run tests, each whole files in the order of tests/conftest.py; most tests wait for others, so three do not overload two cores.
# They start hundreds of processes, which are not to compile again what one of them has compiled.
TEST_WORKERS ?= 3
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest

# What the seeds of `make soak` begin at: it moves on with each commit, and is printed.
SOAK_SEED ?= $(shell git rev-list --count HEAD 2>/dev/null || echo 0)000
SOAK_SECONDS ?= 3600
SOAK_SEEDS ?= 2000
# Of so many tests one is run, another with each commit; what is left out is printed.
SOAK_SAMPLE ?= 1

# The first Python that fits; its version is asked of the interpreter, not read from its name.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
	if command -v $$name >/dev/null 2>&1 && $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then echo $$name; break; fi; done)

# uv where it is installed, otherwise pip; both show what they fetch and build.
# Most of what is installed is never imported, and is not compiled.
UV ?= $(shell command -v uv 2>/dev/null)
INSTALL := $(if $(UV),$(UV) pip install --python $(BIN)/python,$(BIN)/python -m pip install --disable-pip-version-check --no-compile)

# What the processes of a cluster import is compiled once, here, and not by all of them at once at the first start.
COMPILE := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -c 'import eventflink.cli.commands.demo, eventflink.cli.commands.list, \
	eventflink.cli.commands.master, eventflink.cli.commands.rest, eventflink.cli.commands.status, eventflink.cli.commands.submit, \
	eventflink.cli.commands.taskexecutor, eventflink.reader.past.worker; \
	from eventflink.taskexecutor.spark_client import load_client; load_client()'

# The compiler that checks the types of the dashboard's modules, and the types of what they import; nothing of it is served.
TYPES := tests/support/typescript

.PHONY: help demo check test soak docs unit integration lint format clean java

help: ## show this
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

demo: java $(VENV)/.installed-demo ## start a cluster, run a job over real data, show what happened, stop it all
	@$(BIN)/eventflink demo

check: lint unit ## ruff, mypy, tsc, the contracts between the rooms, and the unit tests; needs no Kafka, changes nothing

test: java unit integration ## all tests of what a user is promised; BOOTSTRAP=host:port takes a running Kafka instead of an own one

soak: java $(VENV)/.installed-dev ## what takes hours: long fuzzing and simulation, mutations with new seeds, benchmarks, upgrades, floods
	@echo "==> soak: SOAK_SEED=$(SOAK_SEED) SOAK_SECONDS=$(SOAK_SECONDS) SOAK_SEEDS=$(SOAK_SEEDS)"
	@SOAK_SEED=$(SOAK_SEED) SOAK_SECONDS=$(SOAK_SECONDS) SOAK_SEEDS=$(SOAK_SEEDS) EVENTFLINK_TEST_BOOTSTRAP="$(BOOTSTRAP)" \
		$(PYTEST) -n 2 --dist load --soak --soak-sample=$(SOAK_SAMPLE) -m soak $(or $(SOAK_TESTS),$(shell $(BIN)/python -m tests.support.concerned --all))

docs: $(VENV)/.installed-docs ## the pages of docs/ and an API reference as a site in build/site; fails on a link that leads nowhere
	@echo "==> site"
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=. PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/mkdocs build --quiet --clean
	@echo "build/site/index.html"

# A prerequisite of both: `make check test` runs them once. They need no processes of their own, so each worker takes any test.
unit: $(VENV)/.installed-dev
	@echo "==> unit tests";  $(PYTEST) -n 2 --dist worksteal tests/unit

integration: java unit
	@echo "==> running the tests against $(if $(BOOTSTRAP),Kafka at $(BOOTSTRAP),a Kafka broker of their own)"
	@$(BIN)/python -m tests.support.browser
	@$(BIN)/python -m tests.support.class_archives
	@EVENTFLINK_TEST_BOOTSTRAP="$(BOOTSTRAP)" $(PYTEST) -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder tests/e2e tests/integration

lint: $(VENV)/.installed-dev
	@echo "==> ruff check";  $(BIN)/ruff check .
	@echo "==> ruff format"; $(BIN)/ruff format --check .
	@echo "==> mypy";        $(BIN)/mypy
	@echo "==> import contracts"; $(BIN)/lint-imports
	@echo "==> subjects of commits"; long=$$(git log --no-merges --max-count=20 --format=%s 2>/dev/null | awk 'length > 72'); \
	if [ -n "$$long" ]; then echo "longer than 72 characters: $$long" >&2; exit 1; fi
	@if ! command -v npm >/dev/null; then echo "==> tsc: npm was not found, so the types of the dashboard's modules are not checked"; \
	elif ! $(MAKE) --no-print-directory $(TYPES)/node_modules; then \
		echo "==> tsc: npm could not fetch TypeScript, so the types of the dashboard's modules are not checked"; \
	else echo "==> tsc"; npm --prefix $(TYPES) --silent run check; fi

$(TYPES)/node_modules: $(TYPES)/package-lock.json
	@npm --prefix $(TYPES) --silent --ignore-scripts ci
	@touch $@

format: $(VENV)/.installed-dev ## let ruff format and fix what it can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean: ## remove .venv/ and what tools left; Kafka's jars stay in the user's cache
	@echo "==> removing $(VENV)/ and caches"
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache spark-warehouse $(TYPES)/node_modules
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

java:
	@fits() { "$$1" -version 2>&1 | grep -qE 'version "(1[7-9]|[2-9][0-9])'; }; \
	if ! { [ -n "$$JAVA_HOME" ] && fits "$$JAVA_HOME/bin/java"; } && ! fits java; then \
		echo "Java 17 or newer is needed (Kafka and Spark run on it) and was not found. Install it, then run make again:"; \
		echo "  Debian, Ubuntu: apt-get install openjdk-17-jre-headless   (where that is missing: openjdk-21-jre-headless)"; \
		echo "  Fedora, RHEL:   dnf install java-21-openjdk-headless"; \
		echo "  macOS:          brew install openjdk@17   and set JAVA_HOME"; \
		exit 1; \
	fi >&2

# Without a Python that fits, uv fetches one.
$(BIN)/python:
	@if [ -z "$(PYTHON)$(UV)" ]; then \
		echo "Python 3.11 or newer is needed and was not found. Install it (or uv, which brings it), then run make again:"; \
		echo "  Debian, Ubuntu: apt-get install python3 python3-venv"; \
		echo "  Fedora, RHEL:   dnf install python3"; \
		echo "  macOS:          brew install python@3.13"; \
		exit 1; \
	fi >&2
	@echo "==> making $(VENV)/ with $(if $(UV),uv,$$($(PYTHON) --version))"
	@$(if $(UV),$(UV) venv --seed --python "$(or $(PYTHON),>=3.11)" $(VENV),$(PYTHON) -m venv $(VENV)) || { rm -rf $(VENV); \
		echo "A virtual environment could not be made.$(if $(UV),, Debian, Ubuntu: apt-get install python3-venv)" >&2; exit 1; }

$(VENV)/.installed-demo: pyproject.toml | $(BIN)/python
	@echo "==> installing eventflink into $(VENV)/ with $(if $(UV),uv,pip) (the first time this fetches Spark, about 500 MB)"
	@$(INSTALL) --editable '.[demo]'
	@$(COMPILE)
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	@echo "==> installing eventflink and its tools into $(VENV)/ with $(if $(UV),uv,pip) (the first time this fetches Spark, about 500 MB)"
	@$(INSTALL) --editable '.[dev,demo]'
	@$(COMPILE)
	@touch $@ $(VENV)/.installed-demo

$(VENV)/.installed-docs: pyproject.toml | $(VENV)/.installed-dev
	@echo "==> installing what makes the site into $(VENV)/ with $(if $(UV),uv,pip)"
	@$(INSTALL) --quiet --editable '.[docs]'
	@touch $@
