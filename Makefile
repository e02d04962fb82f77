# Everything a person or CI runs. `make` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PYTHON := $(BIN)/python
PYTEST := $(BIN)/pytest
UV_VERSION := 0.13.9
# The packages are locked for Python 3.11, which the images have too. From 3.13 on there is no numpy below 2, which Triton's stub needs.
IS_FIT := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))
SYSTEM_PYTHON = $(shell for name in python3.11 python3.12 python3; do if $$name -c '$(IS_FIT)' 2>/dev/null; then command -v $$name; break; fi; done)
EXTRAS := operator gateway worker dev
LOCK := uv pip compile pyproject.toml --python-version 3.11 --no-emit-index-url --no-annotate --quiet --custom-compile-command "make lock"
# One thread per process: torch with two is slow as soon as the cores are shared.
export OMP_NUM_THREADS ?= 1

# Machines are shared: what fails is run once more, alone. What is wrong fails twice, and what failed once is printed.
# $(2): options of the first time.
tests = { $(PYTEST) $(1) $(2) || { echo "once more, what failed:"; $(PYTEST) --last-failed --last-failed-no-failures none $(1); }; }

.NOTPARALLEL: # the tests share one machine and one cluster
.PHONY: help setup check format generate lock test test-unit test-api test-e2e test-long bench bench-peers bench-gateway bench-operator demo cluster clean-cluster images clean-cache

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-15s %s\n", $$1, $$2}'

setup: $(VENV)/installed ## make .venv with everything that development, demo and tests need

$(VENV)/installed: requirements/dev.txt pyproject.toml
	@[ -n "$(SYSTEM_PYTHON)" ] || { echo "setup: there is no Python 3.11 or 3.12, for which the packages are locked: apt-get install python3 python3-venv on Debian 12"; exit 1; }
	@$(SYSTEM_PYTHON) -m venv $(VENV) 2>/dev/null || { [ "$$(id -u)" = 0 ] || { echo "setup: $(SYSTEM_PYTHON) cannot make $(VENV), and you are not root: apt-get install python3-venv"; exit 1; }; \
	  apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null && $(SYSTEM_PYTHON) -m venv $(VENV); }
	@echo "setup: installing the locked Python packages (torch is large: a few minutes the first time)"
	@$(BIN)/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$(BIN)/uv pip install --quiet --python $(PYTHON) -r requirements/dev.txt
	@$(BIN)/uv pip install --quiet --python $(PYTHON) --no-deps -e .
	@$(PYTHON) -c 'from diffusion_worker.triton.installation import find_triton; find_triton()' 2>/dev/null || [ "$$(id -u)" != 0 ] || \
	  { apt-get update -qq && apt-get install -y -qq libpython3.11 >/dev/null; } # Triton's stub loads it, Debian's Python does not bring it
	@touch $@

check: setup ## format, lint, types, layers, generated files (under a minute)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(PYTHON) -m diffusion_operator.api.crd --check
	$(PYTHON) charts/sync_crds.py --check
	$(PYTHON) charts/dashboard.py --check
	$(PYTHON) docs/metrics_page.py --check

format: setup ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

generate: setup ## CRD, reference pages and the chart's copy of the CRD from the models
	$(PYTHON) -m diffusion_operator.api.crd
	$(PYTHON) charts/sync_crds.py
	$(PYTHON) charts/dashboard.py
	$(PYTHON) docs/metrics_page.py

lock: setup ## requirements/*.txt from pyproject.toml
	for extra in $(EXTRAS); do $(BIN)/$(LOCK) --extra $$extra -o requirements/$$extra.txt; done

test: check test-unit test-api test-e2e ## everything that CI runs; ends the cluster that it started

test-unit: setup ## pure code, engine against transformers, gateway and Triton as local processes
	@$(call tests,tests/unit tests/property tests/sim tests/engine tests/gateway tests/triton,-n 2 --dist loadfile --no-loadscope-reorder)

test-api: setup ## against a real kube-apiserver, etcd and Prometheus: CRD, operator, gates' data, Helm chart
	@$(call tests,tests/api tests/prometheus tests/chart)

test-e2e: setup ## against the throw-away cluster: real pods, Triton, gateway, Helm
	@running=$$($(PYTHON) -m cluster status 2>/dev/null || true); failed=0; \
	  $(call tests,tests/cluster tests/e2e -m 'not long') || failed=$$?; \
	  [[ $$running == running* ]] || said=$$($(PYTHON) -m cluster down 2>&1) || { echo "$$said"; failed=1; }; \
	  exit $$failed

test-long: setup ## what does not fit CI's time: ten idle minutes without a write, five without an API server, aiperf, all of a rollout's faults
	$(PYTEST) tests/long tests/e2e/test_7_rollout.py

bench: setup ## the engine alone: scaling, distance to the hardware, memory, batching window, passes (FLAGS="--quick")
	$(PYTHON) -m benchmarks.engine $(FLAGS)
	$(PYTHON) -m benchmarks.engine_step
	$(PYTHON) -m benchmarks.report

bench-peers: setup ## beside vLLM and transformers, for which it installs 6 GB (FLAGS="--quick": does it work?)
	$(PYTHON) -m benchmarks.peers all $(FLAGS)
	$(PYTHON) -m benchmarks.report

bench-gateway: setup ## the gateway beside litellm and Envoy, for which it installs 700 MB (FLAGS="--quick": does it work?)
	$(PYTHON) -m benchmarks.gateway $(FLAGS)
	$(PYTHON) -m benchmarks.gateway.scoring $(FLAGS)
	$(PYTHON) -m benchmarks.report

bench-operator: setup ## 1, 100 and 1,000 models in mid-canary on a real API server, 40 minutes (FLAGS="--quick": does it work?)
	$(PYTHON) -m benchmarks.operator $(FLAGS)
	$(PYTHON) -m benchmarks.report

demo: setup ## one story, streamed from a DiffusionModel on a real cluster
	$(PYTHON) -m examples.demo

cluster: setup ## start the throw-away cluster
	$(PYTHON) -m cluster up

clean-cluster: setup ## end the throw-away cluster and remove all it left
	$(PYTHON) -m cluster down

images: setup ## build the container images and push them (REGISTRY=host/prefix: there)
	$(PYTHON) -m cluster images $(if $(REGISTRY),--registry $(REGISTRY))

clean-cache: setup ## remove downloads, compiled programs and image layers that all clones share
	$(PYTHON) -m cluster prune
