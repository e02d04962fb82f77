# Everything a person or CI runs. `make` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PYTHON := $(BIN)/python
PYTEST := $(BIN)/pytest
UV_VERSION := 0.13.9
EXTRAS := operator gateway worker dev
LOCK := uv pip compile pyproject.toml --python-version 3.11 --no-emit-index-url --no-annotate --quiet --custom-compile-command "make lock"
# One thread per process: torch with two is slow as soon as the cores are shared.
export OMP_NUM_THREADS ?= 1

.PHONY: help setup check format generate lock test test-unit test-api test-e2e test-long demo cluster clean-cluster images clean-cache

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-15s %s\n", $$1, $$2}'

setup: $(VENV)/installed ## make .venv with everything that development, demo and tests need

$(VENV)/installed: requirements/dev.txt pyproject.toml
	@command -v python3.11 >/dev/null || command -v python3 >/dev/null || { echo "Python 3.11 or newer is missing: apt-get install python3 python3-venv"; exit 1; }
	@python3 -m venv $(VENV) 2>/dev/null || { apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null && python3 -m venv $(VENV); }
	@echo "setup: installing the locked Python packages (torch is large: a few minutes the first time)"
	@$(BIN)/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$(BIN)/uv pip install --quiet --python $(PYTHON) -r requirements/dev.txt
	@$(BIN)/uv pip install --quiet --python $(PYTHON) --no-deps -e .
	@touch $@

check: setup ## format, lint, types, layers, generated files (under a minute)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(PYTHON) -m diffusion_operator.api.crd --check
	$(PYTHON) charts/sync_crds.py --check

format: setup ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

generate: setup ## CRD, reference pages and the chart's copy of the CRD from the models
	$(PYTHON) -m diffusion_operator.api.crd
	$(PYTHON) charts/sync_crds.py

lock: setup ## requirements/*.txt from pyproject.toml
	for extra in $(EXTRAS); do $(BIN)/$(LOCK) --extra $$extra -o requirements/$$extra.txt; done

test: check test-unit test-api test-e2e ## everything that CI runs; ends the cluster that it started

test-unit: setup ## pure code, engine against transformers, gateway and Triton as local processes
	$(PYTEST) tests/unit tests/property tests/sim tests/engine tests/gateway tests/triton

test-api: setup ## against a real kube-apiserver and etcd: CRD, operator, Helm chart
	$(PYTEST) tests/api tests/chart

test-e2e: setup ## against the throw-away cluster: real pods, Triton, gateway, Helm
	$(PYTEST) tests/cluster tests/e2e
	$(PYTHON) -m cluster down

test-long: setup ## what does not fit CI's time: ten idle minutes without a write
	$(PYTEST) tests/long

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
