VENV   = .venv
PYTHON = $(VENV)/bin/python
DATA   = ../shared/data
PYTHONS = python3.11 python3.12 python3.13
SITE   = $(PYTHON) -m sphinx -W --keep-going -n -E -q docs build/site
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo recorded test quick costs nightly checks tests test-model test-integrations test-install site bench clean

demo: $(VENV)/kumi  ## install, index examples/, ask in English and Japanese, write the reports as a page
	$(VENV)/bin/kumi index examples
	@echo
	$(VENV)/bin/kumi ask < docs/examples-source/demo.txt
	@echo
	$(VENV)/bin/kumi report --html .kumi/report.html
	@printf '\nNext:\n'
	@echo '  $(VENV)/bin/kumi ask                               # a conversation about examples/'
	@echo '  $(VENV)/bin/kumi index FOLDER --index notes.kumi   # your own documents'
	@echo '  $(VENV)/bin/kumi ask "..." --index notes.kumi'

recorded: export KUMI_INDEX = examples-recorded/.kumi
recorded: $(VENV)/kumi  ## the same as a model makes it, by recorded replies: no key, no cost
	$(VENV)/bin/kumi index examples --methods braid,global,local --yes
	@echo
	$(VENV)/bin/kumi ask --method braid "How did the gap in the Long Arm come to cost the tide station electricity?"
	@echo
	$(VENV)/bin/kumi ask --method global "What are the main themes of these documents?"
	@printf '\nNext: examples-recorded/replies/commands.txt lists what else is recorded, such as\n'
	@echo '  $(VENV)/bin/kumi report --index $(KUMI_INDEX)'
	@echo '  $(VENV)/bin/kumi entities --index $(KUMI_INDEX)'

test: $(VENV)/dev  ## everything that CI runs
	$(MAKE) -j 2 checks tests

checks: $(VENV)/dev  ## style, types, imports
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff check --preview --select PLW1514 benchmarks docs examples src tests # texts name their encoding
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/lint-imports
	$(PYTHON) -m mypy src

# Threads of numpy would wait for cores that other workers use.
quick tests nightly: export OPENBLAS_NUM_THREADS = 1
quick tests: export HISTORIES = 2

quick: $(VENV)/dev  ## the fast tests, between edits
	$(PYTHON) -m pytest -n auto --dist worksteal -m "not slow and not nightly"

tests: $(VENV)/dev
	$(PYTHON) -m pytest -n auto --dist worksteal -m "not nightly"

costs: export OPENBLAS_NUM_THREADS = 1
costs: export HISTORIES = 2
costs: $(VENV)/dev  ## measure the CPU seconds of each file of tests
	$(PYTHON) -m pytest -n auto --dist worksteal -m "not nightly" --costs

nightly: $(VENV)/dev  ## all tests, the types of tests and benchmarks, the documentation; it takes a quarter of an hour
	$(PYTHON) -m mypy
	$(SITE)
	$(PYTHON) -m pytest -n auto --dist worksteal

test-model: $(VENV)/model-tests  ## ask a real, very small model on this machine; not in CI
	$(PYTHON) -m pytest tests/real_server -m model

test-integrations: $(VENV)/integration-tests  ## LangChain, LlamaIndex and Haystack, with their own tests; not in CI
	$(PYTHON) -m pytest tests/integrations -o asyncio_mode=auto -W default

test-install: $(VENV)/dev  ## install the built package into empty environments of PYTHONS; not in CI
	$(PYTHON) -m tests.clean_install $(PYTHONS)

site: $(VENV)/dev  ## build the documentation in build/site
	$(SITE)

bench: $(VENV)/dev  ## measure the published figures, then list the bounds that are unmet; DATA=folder of the data sets
	$(PYTHON) -m benchmarks --data $(DATA)

$(VENV)/bin/python:
	python3 -m venv $(VENV)

$(VENV)/kumi: $(VENV)/bin/python pyproject.toml
	$(PYTHON) -m pip install -q -e '.[docs]'
	touch $@

$(VENV)/dev: $(VENV)/bin/python pyproject.toml
	$(PYTHON) -m pip install -q -e '.[dev,site]'
	touch $@ $(VENV)/kumi

$(VENV)/integration-tests: $(VENV)/dev
	$(PYTHON) -m pip install -q -e '.[dev,integration-tests]'
	touch $@

$(VENV)/model-tests: $(VENV)/dev
	$(PYTHON) -m pip install -q -e '.[dev,model-tests]'
	touch $@

clean:
	rm -rf $(VENV) .kumi build/site .mypy_cache .ruff_cache .pytest_cache .hypothesis
