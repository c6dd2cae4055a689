# `make demo` and `make test` install what they need into .venv and run; nothing else is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
RESULTS ?= .demo/results
# Installed size of the demo extra in MiB: with a CPU build of torch, and with the CUDA build that PyPI serves elsewhere.
DEMO_MIB := 1500
DEMO_CUDA_MIB := 9000

# Markers of tests that need root and packages of the system; all but the first need the hosts of tests/testbed.
SYSTEM_MARKERS := testbed apptainer condor slurm ssh
SYSTEM_TESTS := $(shell echo $(SYSTEM_MARKERS) | sed 's/ / or /g')

.PHONY: help demo test test-all system test-chaos test-hostile test-realcli realcli test-vllm testbed lint install install-demo install-dev constraints benchmarks clean

help:
	@echo "make demo         the whole pipeline on this machine's CPU, in minutes; results in $(RESULTS)"
	@echo "make test         all tests that need neither root nor network"
	@echo "make test-all     these and the ones that need root and packages of the system"
	@echo "make testbed      real hosts for these tests (root, Debian packages): built, brought up and proved"
	@echo "make test-chaos   runs that are killed, logins that are lost, providers that fail"
	@echo "make test-hostile agents that attack their sandbox, the judges and the terminal, in bubblewrap"
	@echo "make realcli      the real CLIs, installed from npm, through every failure of a provider; half an hour"
	@echo "make test-vllm    one task through a real vLLM for CPUs, in an environment of its own: 2.6 GB"
	@echo "make lint         ruff, mypy and the layer contract"
	@echo "make benchmarks   figures, with peers measured in the same run"
	@echo "make constraints  renew constraints.txt from what pip chooses today"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, not " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml constraints.txt | $(BIN)/python
	@$(PIP) install --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	@$(BIN)/python containers/room_for.py $(VENV) $(DEMO_MIB) $(DEMO_CUDA_MIB)
	@$(PIP) install --constraint constraints.txt --editable '.[demo]'
	@touch $@ $(VENV)/.base

$(VENV)/.dev: pyproject.toml constraints.txt $(VENV)/.demo
	@$(PIP) install --constraint constraints.txt --editable '.[demo,judge,dev]'
	@touch $@

install: $(VENV)/.base
install-demo: $(VENV)/.demo
install-dev: $(VENV)/.dev

demo: $(VENV)/.demo
	$(BIN)/ptb-tui --batch sweeps/demo.toml --results $(RESULTS) --yes

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not ($(SYSTEM_TESTS) or realcli or hostile or vllm or chaos)"

# As root: installs packages of the system, then runs what needs them. PTB_REQUIRE makes a skipped marker a failure.
test-all: $(VENV)/.dev system test-chaos test-realcli test-hostile test-vllm testbed
	PTB_REQUIRE="$(SYSTEM_MARKERS)" $(BIN)/python -m pytest -q -m "$(SYSTEM_TESTS)"; \
		status=$$?; $(BIN)/python -m tests.testbed down; exit $$status

system:
	bash .ci/system

# Neither root nor network is needed, only minutes.
test-chaos: $(VENV)/.dev
	PTB_REQUIRE="chaos" $(BIN)/python -m pytest -q -n 2 --dist worksteal -m chaos

# Agents that attack, in bubblewrap; in one process, because they share one sweep. In Apptainer: marker apptainer.
test-hostile: $(VENV)/.dev
	PTB_REQUIRE="hostile" $(BIN)/python -m pytest -q -m "hostile and not ($(SYSTEM_TESTS))"

# The real CLIs, from npm into /var/tmp/ptb-realcli (PTB_REALCLI_DIR), against a scripted endpoint: what each change must
# pass, and with `make realcli` everything, which takes half an hour.
test-realcli: $(VENV)/.dev
	PTB_REQUIRE="realcli" $(BIN)/python -m pytest -q -n 2 --dist worksteal -m realcli

realcli: export PTB_REALCLI := all
realcli: test-realcli

# A real vLLM, its build for CPUs, with pip into /var/tmp/ptb-vllm (PTB_VLLM_DIR): 2.6 GB, installed once.
test-vllm: $(VENV)/.dev
	$(BIN)/python -m tests.vllm.environment
	PTB_REQUIRE="vllm" $(BIN)/python -m pytest -q -m vllm

# Hosts with HTCondor, Slurm, sshd and Apptainer for the tests; as root. Left up: `python -m tests.testbed down`.
testbed: $(VENV)/.dev
	bash .ci/system
	$(BIN)/python -m tests.testbed build
	$(BIN)/python -m tests.testbed up ws
	PTB_REQUIRE="testbed apptainer" $(BIN)/python -m pytest -q tests/testbed/test_runtime.py

benchmarks: $(VENV)/.dev
	@for name in runs traces collect contamination; do echo "== $$name"; $(BIN)/python -m benchmarks.$$name || exit 1; done

constraints: | $(BIN)/python
	$(PYTHON) -m venv .constraints
	.constraints/bin/python -m pip --disable-pip-version-check --quiet install --editable '.[demo,judge,web,dev]'
	.constraints/bin/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' > constraints.txt
	rm -rf .constraints

clean:
	rm -rf .demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
