# Every target sets up its own virtual environment; a fresh machine needs Python 3.11 or later and make.
#   make demo    train TEAM on the CPU in about two minutes, score it, and draw its curves and its attention
#   make test    the default test suite
#   make check   the inner loop, within a minute: ruff, which package may import which, the quickest tests of all packages
#   make lint    ruff, pyright, and which package may import which
#   make docs    build the documentation site into site/; `make docs-serve` shows it
#   make clean   remove what the targets made

PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed
# Neither sources nor tests are compiled to bytecode anew by every process that tests start.
unexport PYTHONDONTWRITEBYTECODE
# The longest files first (tests/conftest.py says which), so that the workers end together.
WORKERS := --numprocesses auto --dist loadfile --no-loadscope-reorder

QUICK := $(addprefix tests/,test_import.py test_files.py test_hygiene.py test_settings.py test_faults.py test_compiler.py \
  algorithms/test_randomness.py algorithms/test_divide_and_conquer.py data/test_blocks.py data/test_stream.py \
  models/test_scoring.py models/test_triplet_edge_attention.py models/test_parameters.py loops/test_time_loop.py \
  fused/test_parts.py fused/test_narrow_product.py training/test_selection.py training/test_config.py \
  training/test_batch_memory.py sweeps/test_systems.py report/test_statistics.py report/test_tables.py solve/test_bad_input.py \
  interop/test_networkx.py cli/test_failures.py bench/test_launches.py docs/test_documents.py)

.PHONY: demo test check lint docs docs-serve clean

demo: $(STAMP)
	$(VENV)/bin/narkit demo

test: $(STAMP)
	$(VENV)/bin/python -m pytest $(WORKERS)

check: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports
	$(VENV)/bin/python -m pytest $(WORKERS) -q $(QUICK)

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports
	$(VENV)/bin/pyright --pythonpath $(VENV)/bin/python

# Nothing on the site comes from elsewhere; a broken link or a page that fails ends the build.
docs: $(VENV)/.docs-installed
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet

docs-serve: $(VENV)/.docs-installed
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs serve

$(VENV)/.docs-installed: $(STAMP)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[docs]"
	@touch $@

# The stamp is written last, so an interrupted installation starts again.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("narkit needs Python 3.11 or later, but $(PYTHON) is %d.%d; set PYTHON=..." % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	@touch $@

clean:
	rm -rf $(VENV) .venv-* .pytest_cache .test_cache .ruff_cache .hypothesis .import_linter_cache build dist demo site
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
