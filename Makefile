VENV   = .venv
PYTHON = $(VENV)/bin/python
DATA   = ../shared/data
SITE   = $(PYTHON) -m sphinx -W --keep-going -n -E -q docs build/site
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test site bench clean

demo: $(VENV)/kumi  ## from nothing to cited answers
	$(VENV)/bin/kumi index examples
	$(VENV)/bin/kumi ask "What was the name of the dog rescued from the Constant Ebb?"
	$(VENV)/bin/kumi ask "「潮返し」という組み方は、どのようにして生まれましたか。"

test: $(VENV)/dev  ## everything CI runs
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(PYTHON) -m mypy
	$(VENV)/bin/lint-imports
	$(PYTHON) -m pytest
	$(SITE)

site: $(VENV)/dev  ## the documentation, in build/site
	$(SITE)

bench: $(VENV)/dev  ## the published figures; DATA=folder of the data sets
	$(PYTHON) -m benchmarks --data $(DATA)

$(VENV)/bin/python:
	python3 -m venv $(VENV)

$(VENV)/kumi: $(VENV)/bin/python pyproject.toml
	$(PYTHON) -m pip install -q -e .
	touch $@

$(VENV)/dev: $(VENV)/bin/python pyproject.toml
	$(PYTHON) -m pip install -q -e '.[dev,site]'
	touch $@ $(VENV)/kumi

clean:
	rm -rf $(VENV) .kumi build/site .mypy_cache .ruff_cache .pytest_cache .hypothesis
