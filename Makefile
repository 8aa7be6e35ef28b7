# Two commands do all the set-up on a fresh machine: `make demo` and `make test`. Each step is skipped when it is done.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup engine images browser demo test check format fuzz kill bench stop lock

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

help: ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 10

setup: $(INSTALLED) ## the virtual environment, from the lock

$(INSTALLED): requirements.lock pyproject.toml
	@echo "setup: making $(VENV) from requirements.lock" >&2
	@python=$$(for p in $${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do \
	    "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done); \
	[ -n "$$python" ] || { echo "setup: Python 3.11 or newer is not on the PATH; install it, or set PYTHON" >&2; exit 1; }; \
	if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
	    echo "setup: installing python3-venv" >&2; \
	    sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	    $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq python3-venv >/dev/null; \
	fi; \
	"$$python" -m venv --clear $(VENV)
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

engine: setup ## a container engine: the one that runs, or a private one
	@$(BIN)/python -m sandbox engine ensure > /dev/null

images: engine ## the sandbox images
	@$(BIN)/codeact image build > /dev/null
	@$(BIN)/codeact image build --sandbox bubblewrap > /dev/null

demo: engine ## the main job: a model answers a question about a file, in a sandbox
	@$(BIN)/codeact image build data > /dev/null
	@echo "demo: codeact solve \"$$(cat examples/question.txt)\" --data examples/orders.csv" >&2
	@$(BIN)/codeact solve @examples/question.txt --data examples/orders.csv

browser: ## Chromium, for the tests that need one; they are skipped where it cannot be had
	@command -v chromium chromium-browser google-chrome > /dev/null || { \
	    echo "browser: installing chromium" >&2; \
	    sudo=; [ "$$(id -u)" = 0 ] || sudo="sudo -n"; \
	    { $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends chromium; } > /dev/null 2>&1 || \
	    echo "browser: chromium could not be installed; tests that need a browser are skipped" >&2; \
	}

test: images browser ## all tests, with real containers
	@$(BIN)/python -m pytest

check: setup ## formatter, linter, strict types, direction of imports
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -q tests/unit/test_architecture.py

format: setup ## put the code in form
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

fuzz: setup ## hostile frames, replies and tools at what reads them, 10,000 cases each
	@$(BIN)/python -m pytest -q --hypothesis-profile=fuzz tests/unit/test_bridge_fuzz.py tests/unit/test_guest_fuzz.py \
	    tests/unit/test_sandbox_frames.py tests/unit/test_network_policy.py tests/unit/test_network_proxy.py \
	    tests/unit/test_stubs.py

kill: images ## a run killed at 100 random points and carried on; KILL_SEED=N for other points
	@KILL_POINTS=100 $(BIN)/python -m pytest -q -s tests/integration/test_resume.py -k killed

bench: images ## times, beside their floors
	@$(BIN)/python -m benchmarks.speed --peer
	@$(BIN)/python -m benchmarks.tools_speed --peer

stop: setup ## end what the other commands started: the local model and the private engine
	@$(BIN)/codeact model stop
	@$(BIN)/python -m sandbox engine stop

lock: ## renew requirements.lock from pyproject.toml
	@uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	    --extra local --extra mcp --extra tables --group dev --group notebook pyproject.toml -o requirements.lock
