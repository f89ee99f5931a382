# Every target sets up what it needs; all it takes is a Python >= 3.11 with venv.
.DEFAULT_GOAL := help
.PHONY: help demo serve-demo test test-avx2 test-all lint format docs fuzz release bench peers ranking scaling trials structure presence context features stream serving interruptions kills fuzz-service mutants constraints clean

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal
EXACT := $(patsubst %,tests/test_%.py,docs exactness gradients joint kernels model_file sampling symmetry)
VERSIONS := 3.11 3.12 3.13 3.14
DATA := packages/ordbm-movielens-small
unexport PYTHONDONTWRITEBYTECODE  # or each process that a test starts compiles the package anew
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

help:  ## Show the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "make %-12s %s\n", $$1, $$2}'

demo: $(VENV)/.base  ## Fit and try a machine on the embedded ratings
	$(BIN)/ordbm demo $(ARGS)

serve-demo: build/demo.ordbm  ## Serve a model of the embedded ratings, and open it in a browser
	$(BIN)/ordbm serve build/demo.ordbm --titles movielens-small --open $(ARGS)

test: $(VENV)/.dev  ## Run the tests, some at once (ARGS="-k scale" for a few of them)
	$(PYTEST) $(ARGS)

test-avx2: $(VENV)/.dev  ## Run those of pages and exactness as a processor without AVX-512 would
	$(BIN)/python tools/as_processor.py x86-64-v3 $(PYTEST) $(EXACT) $(ARGS)

test-all:  ## Run the tests on every supported Python found
	@ran=; for version in $(VERSIONS); do \
	  python$$version -c '' 2>/dev/null || { echo "python$$version: not found, skipped"; continue; }; \
	  $(MAKE) test VENV=.venv-$$version PYTHON=python$$version || exit 1; ran=yes; \
	done; test -n "$$ran" || { echo "none of Python $(VERSIONS) found"; exit 1; }

fuzz: $(VENV)/.dev  ## Try odd inputs of every kind (ARGS="--inputs 1000000 --seed 1")
	PYTHONPATH=tests $(BIN)/python -m fuzzing $(ARGS)

lint: $(VENV)/.dev  ## Check style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev  ## Put the code into the common format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.dev  ## Build the documentation into build/docs, warnings as errors
	$(BIN)/python -m sphinx -E -W --keep-going -q $(ARGS) docs build/docs

mutants: $(VENV)/.dev  ## Put small faults into the package and see which test notices (ARGS="--only kernels")
	$(BIN)/python tools/mutants.py $(ARGS)

release: $(VENV)/pyvenv.cfg  ## Build sdists and wheels into dist, and try them in an empty environment
	$(BIN)/python tools/release.py $(ARGS)

bench: $(VENV)/.dev  ## Measure speed and memory
	PYTHON=$(BIN)/python benchmarks/run $(ARGS)
	PYTHON=$(BIN)/python benchmarks/memory
	benchmarks/environment peers-rankers >/dev/null
	$(BIN)/python benchmarks/answers.py

peers: $(VENV)/.dev  ## Measure accuracy beside other libraries (ARGS="--data filmtrust --models ours")
	PYTHON=$(BIN)/python benchmarks/accuracy $(ARGS)

ranking: $(VENV)/.dev  ## Measure whole-catalogue lists beside other rankers (ARGS="--data filmtrust")
	PYTHON=$(BIN)/python benchmarks/ranking $(ARGS)

scaling: $(VENV)/.dev  ## Measure time and memory by the number of ratings (ARGS="--sizes 1,2")
	PYTHON=$(BIN)/python benchmarks/scaling $(ARGS)

trials: $(VENV)/.dev  ## Try settings on validation ratings (ARGS="--data filmtrust --plan")
	PYTHON=$(BIN)/python benchmarks/trials $(ARGS)

features: $(VENV)/.dev  ## Measure what features of users and items give (ARGS="--data ml-100k")
	PYTHON=$(BIN)/python benchmarks/features $(ARGS)

structure: $(VENV)/.dev  ## Measure which structures are found (ARGS="--recovery --data filmtrust")
	PYTHON=$(BIN)/python benchmarks/structure $(ARGS)

presence: $(VENV)/.dev  ## Measure what presence gives and costs (ARGS="--only reliability")
	PYTHON=$(BIN)/python benchmarks/presence $(ARGS)

context: $(VENV)/.dev  ## Measure what the times of ratings tell (ARGS="--data ml-100k --members 1")
	PYTHON=$(BIN)/python benchmarks/context $(ARGS)

stream: $(VENV)/.dev  ## Measure a model that grows with a stream of ratings (ARGS="--parts grown,late")
	PYTHON=$(BIN)/python benchmarks/stream $(ARGS)

serving: $(VENV)/.dev  ## Measure how much a service answers, and try it under all kinds of requests at once
	$(BIN)/python benchmarks/service.py $(ARGS)
	$(BIN)/python benchmarks/service_mixed.py $(ARGS)

interruptions: $(VENV)/.dev  ## Interrupt and kill commands in every phase, 500 times each
	$(BIN)/python tools/interrupt_many.py --page docs/results/interruptions.md $(ARGS)

kills: $(VENV)/.dev  ## Kill a service under write load, 200 times on each database
	@mkdir -p build
	PYTHONPATH=tests $(BIN)/python tools/kill_server.py --rows build/kills.jsonl --page docs/results/kills.md $(ARGS)

fuzz-service: $(VENV)/.dev  ## Ask a service at random whatever its OpenAPI document allows and forbids
	PYTHONPATH=tests $(BIN)/python tools/fuzz_service.py --page docs/results/api-fuzzing.md $(ARGS)

constraints: $(VENV)/.dev  ## Pin what is installed now as what is tested with
	$(BIN)/python -m pip freeze --exclude-editable > constraints.txt

clean:  ## Remove all that the targets made
	rm -rf .venv .venv-* benchmarks/.venv-peers* benchmarks/.cache build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/pyvenv.cfg:
	@for python in "$(PYTHON)" python3 $(foreach version,$(VERSIONS),python$(version)); do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "creating $(VENV) with $$("$$python" --version)"; \
	    "$$python" -m venv $(VENV) && exit 0; \
	    rm -rf $(VENV); echo "$$python cannot make virtual environments: install its venv module"; exit 1; \
	  fi; \
	done; echo "no Python >= 3.11 found: install one, or say where it is: make PYTHON=/path/to/python3"; exit 1

$(VENV)/.base: $(VENV)/pyvenv.cfg pyproject.toml $(DATA)/pyproject.toml constraints.txt
	$(INSTALL) -e . -e $(DATA)
	@touch $@

$(VENV)/.served: $(VENV)/pyvenv.cfg pyproject.toml $(DATA)/pyproject.toml constraints.txt
	$(INSTALL) -e '.[serve]' -e $(DATA)
	@touch $@ $(VENV)/.base

build/demo.ordbm: $(VENV)/.served
	@mkdir -p build
	$(BIN)/ordbm fit movielens-small -o $@ --preset fast

$(VENV)/.dev: $(VENV)/pyvenv.cfg pyproject.toml $(DATA)/pyproject.toml constraints.txt
	$(INSTALL) -e '.[dev]' -e $(DATA)
	@touch $@ $(VENV)/.base
