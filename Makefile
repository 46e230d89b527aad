# Meterline. `make` lists the targets. Begin with `make run` and `make quick`.

PYTHON ?= python3
UV_VERSION := 0.13.9
PIP_AUDIT_VERSION := 2.10.1
GOVULNCHECK_VERSION := v1.9.0
PORT ?= 8888
AT_ONCE ?= 3
SCHEDULES ?= 10000
EXAMPLES ?= 1000
BODIES ?= 1000000
ROUNDS ?= 2
STEP ?= 1
EVENTS ?= 10000000
FLIGHTS ?= 336776
MINUTES ?= 60
RUNS ?= 1000
SHARE ?= $(shell git rev-list --count HEAD 2>/dev/null || echo 0)
DELIVERIES ?= 10000
SECRETS ?= deploy/.env

BIN := .venv/bin
# How many tests at once stands at each target; tests/side_by_side.py says which may.
PYTEST := $(BIN)/pytest --dist loadscope --no-loadscope-reorder --numprocesses
INSTALLED := .venv/.installed
UV := $(BIN)/uv

# Every process that a test starts would else compile all modules of the product anew: a second each.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help needs install run compose demo quick test test-share test-all check conformance simulate faults receivers outage disk day recovery soak clients console bench format services lock site sbom audit clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- use ---

install: $(INSTALLED) ## make .venv with everything in it (needs Python 3.11 or newer, nothing else)

run: install ## run the whole product, embedded, on http://127.0.0.1:8888 (PORT=...)
	$(BIN)/meterline up --port $(PORT)

compose: ## run everything in containers: two of each role, the servers, Prometheus, Grafana (needs Docker)
	@test -e $(SECRETS) || (umask 077; for name in METERLINE_SECRET_KEY CLICKHOUSE_PASSWORD \
		POSTGRES_PASSWORD GRAFANA_PASSWORD; do printf '%s=' "$$name"; \
		od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; echo; done >$(SECRETS))
	docker compose --env-file $(SECRETS) -f deploy/compose.yaml up --build --detach --wait

demo: install ## meter every flight that left New York in 2013, and deliver a report
	$(BIN)/python -m demo

# --- work on it ---

# What `make check` and the tests need beside Python: the command, and what to install for it.
NEEDS := go:Go-1.24 node:Node.js-20 npm:npm mvn:Maven java:a-JDK-17 cc:a-C-compiler

needs: ## say what is missing for `make check`, `make test` and `make test-all`
	@missing=; for one in $(NEEDS); do \
		command -v "$${one%%:*}" >/dev/null 2>&1 || missing="$$missing, $${one#*:} ($${one%%:*})"; \
	done; \
	if [ -n "$$missing" ]; then \
		echo "make test and make check need $${missing#, } on the path: install it and run this again." >&2; \
		exit 1; \
	fi

quick: install ## run the quick tests: rules and steps, no servers (a minute)
	$(PYTEST) 2 --tier quick $(TESTS)

test: needs install ## run quick and standard tests; fetches and starts Kafka, ClickHouse and PostgreSQL
	$(BIN)/python -m tests.services fetch
	$(PYTEST) $(AT_ONCE) --tier standard $(TESTS)

test-share: needs install ## run the long tests of one share of four, as CI does after `make test` (SHARE=...)
	$(BIN)/python -m tests.services fetch
	$(PYTEST) $(AT_ONCE) --share $(SHARE) $(TESTS)

test-all: needs install ## run all tests (50 to 90 minutes; AT_ONCE=...)
	$(BIN)/python -m tests.services fetch
	$(PYTEST) $(AT_ONCE) --tier long $(TESTS)

check: needs install ## lint, types, layers, deployment files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/yamllint --strict deploy .pre-commit-config.yaml
	$(BIN)/hadolint deploy/Dockerfile
	$(BIN)/shellcheck .ci/run
	$(BIN)/python -m clients.openapi check

conformance: install ## a million bodies, a thousand requests an operation (EXAMPLES=... BODIES=...)
	METERLINE_TEST_EXAMPLES=$(EXAMPLES) METERLINE_TEST_BODIES=$(BODIES) $(BIN)/pytest tests/conformance

simulate: install ## live 10,000 worlds from seeds, with every fault, against an oracle (SCHEDULES=...)
	$(BIN)/python -m tests.simulation --schedules $(SCHEDULES)

faults: install ## kill, freeze and cut off every process, 300 times, against an oracle (ROUNDS=...)
	$(BIN)/python -m tests.services fetch
	$(BIN)/python -m tests.faults --rounds $(ROUNDS)

receivers: install ## make 1,000 runs to one receiver that fails half of the time, with kills (RUNS=...)
	METERLINE_TEST_RUNS=$(RUNS) $(BIN)/pytest -s tests/journey/test_bad_receiver.py

outage: install ## 10,000 deliveries over an outage of an hour, in simulated time (DELIVERIES=...)
	METERLINE_TEST_DELIVERIES=$(DELIVERIES) $(BIN)/pytest -s -k outage_of_an_hour \
		tests/unit/dispatcher/sending/test_sick.py

disk: install ## a full, failing or powerless disk at every call of each embedded store (STEP=10: every 10th)
	$(BIN)/python -m tests.disk $(STEP)

day: install ## a day of 10,000,000 events with 20 kills, then totals and audit (EVENTS=...)
	$(BIN)/python -m tests.services fetch
	$(BIN)/python -m tests.faults.day --events $(EVENTS)

recovery: install ## back up under load, wipe, restore, move and upgrade, with a year's flights (FLIGHTS=...)
	$(BIN)/python -m tests.services fetch
	$(BIN)/python -m tests.recovery --flights $(FLIGHTS)

soak: install ## an hour at half of the top rate: memory, lag and file handles are flat (MINUTES=...)
	$(BIN)/python -m tests.services fetch
	$(BIN)/python -m tests.soak --minutes $(MINUTES) $(SOAK)

clients: install ## make the documents of the API and the clients anew from the code (needs Node.js and Go)
	$(BIN)/python -m clients.openapi generate

console: needs ## build the console's files in control/console from console/ (needs Node.js)
	cd console && npm ci --ignore-scripts --no-audit --no-fund && npm run --silent build

bench: install ## measure events a second, latency and memory, or one thing (ONLY=reads); not a test
	$(BIN)/python -m tests.services fetch
	$(BIN)/python -m tests.bench $(ONLY)

format: install ## format the code and fix what can be fixed by machine
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

services: install ## start Kafka, ClickHouse and PostgreSQL and print their URLs; Ctrl-C stops them
	$(BIN)/python -m tests.services

lock: install ## choose the versions in requirements.lock anew, from pyproject.toml (UPGRADE=--upgrade)
	$(UV) pip compile --quiet --python $(BIN)/python --all-extras --generate-hashes --no-header \
		--no-emit-index-url --no-annotate $(UPGRADE) -o requirements.lock pyproject.toml

site: install ## build the docs as a site in dist/site
	$(BIN)/python -m docs.site dist/site

sbom: install ## write bills of materials (CycloneDX) of the image, the console and both clients to dist/sbom
	$(BIN)/python -m tests.deploy.supply dist/sbom

audit: install ## ask the registries' advisories about everything that is locked (needs their networks)
	$(UV) tool run --from pip-audit==$(PIP_AUDIT_VERSION) pip-audit --strict --disable-pip \
		--require-hashes --requirement requirements.lock --progress-spinner off
	cd console && npm audit
	cd clients/typescript && npm audit
	cd clients/go && go run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION) ./...

clean: ## remove .venv, caches and fetched servers (not meterline-data)
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf clients/*/node_modules console/node_modules console/dist clients/typescript/dist examples/*/*/node_modules
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo 'Meterline needs Python 3.11 or newer, and `$(PYTHON)` is not: install one and name it,' \
			'e.g. `make install PYTHON=python3.12`.' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo 'This Python cannot make virtual environments. Debian and Ubuntu: apt install' \
			'python3-venv. Others: install Python whole, and name it: make install PYTHON=...' >&2; \
		exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@echo 'Installs Python packages, once. This may take a minute or two.'
	$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements.lock
	$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python --no-deps \
		--build-constraints requirements.lock -e .
	@touch $@
