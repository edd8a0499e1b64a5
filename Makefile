.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := minilm,index,int8,report,eval,serve,studio,cloud,ray,docs,dev

.PHONY: help install demo test test-all lint format types bench docs constraints clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(VENV)/.installed  ## Make .venv with everything that demo, tests and docs need

$(VENV)/.installed: pyproject.toml constraints.txt
	@echo 'Installing into $(VENV): two to five minutes, once.'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --constraint constraints.txt --editable '.[$(EXTRAS)]' --progress-bar off \
		2> >(grep -v '^WARNING' >&2) | awk -v total=$$(wc -l < constraints.txt) -f scripts/install_progress.awk
	@touch $@

demo: install  ## The whole way on tables it makes itself, in minutes
	$(BIN)/navi demo

test: install lint types  ## Lint, type-check, and run all tests but the long ones
	$(BIN)/pytest -n 2

test-all: install lint types  ## Every test, the long ones too
	$(BIN)/pytest -n 2 -m 'long or not long'

lint: install  ## Check style and formatting
	$(BIN)/ruff check src tests benchmarks examples scripts
	$(BIN)/ruff format --check src tests benchmarks examples scripts

format: install  ## Mend style and formatting
	$(BIN)/ruff check --fix src tests benchmarks examples scripts
	$(BIN)/ruff format src tests benchmarks examples scripts

types: install  ## Check types
	$(BIN)/mypy

bench: install  ## Run the benchmarks that need no GPU
	@for script in benchmarks/[a-z]*.py; do grep -q '^# needs:' $$script || $(BIN)/python $$script; done

docs: install  ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

constraints: install  ## Pin what is installed now
	$(BIN)/pip freeze --exclude-editable | sed 's/+cpu$$//' > constraints.txt

clean:  ## Remove what make made
	rm -rf $(VENV) build site .mypy_cache .ruff_cache .pytest_cache
