# Two commands are enough: `make quickstart` and `make test`. Each does all the set-up it needs.
.PHONY: help quickstart check test test-full lint typecheck format constraints architecture clean
.DEFAULT_GOAL := help

# Byte code is kept, whatever the environment says: tests start about a thousand interpreters, which would each compile
# all that they import.
unexport PYTHONDONTWRITEBYTECODE

# Tests that start no lab, no JVM, no cluster of processes and no long simulation: the loop of a change.
UNIT_TESTS := tests/test_architecture.py tests/docs/test_transcripts.py tests/nodes/broker tests/nodes/metadata \
	tests/nodes/protocol tests/nodes/raft tests/nodes/replication tests/nodes/storage tests/nodes/test_config.py \
	$(filter-out tests/nemesis/agent/% tests/workloads/clients/%,$(shell find tests/nemesis tests/workloads -name 'test_*.py')) \
	tests/results/history/test_history.py tests/results/history/test_parquet_files.py tests/results/report/test_render.py \
	tests/results/verdict/test_required.py tests/results/history/test_segments.py tests/results/history/test_store.py \
	tests/harness/cli/figures/test_bench.py tests/harness/cli/run/test_campaign.py tests/harness/cli/test_cli.py \
	tests/harness/terminal/test_display.py tests/harness/run/test_dry_run.py tests/harness/scenario/test_faults.py \
	tests/harness/cli/test_help.py tests/harness/cli/test_hostile_input.py tests/harness/scenario/test_included_suites.py \
	tests/harness/scenario/test_inventory.py tests/harness/scenario/test_named_suites.py tests/harness/scenario/test_plan.py \
	tests/harness/cli/test_printed_commands.py tests/harness/cli/test_refusals.py tests/harness/cli/run/test_refused_scenarios.py \
	tests/harness/scenario/test_suite.py tests/harness/test_yaml_source.py \
	tests/harness/gallery tests/harness/artifacts/test_go_programs.py tests/harness/systems/nats tests/harness/systems/etcd \
	tests/workloads/clients/programs

# Files with benchmarks that a sentence holds to a time: they are run first, with nothing beside them.
TIMED_TESTS := $(shell grep -lr --include='test_*.py' '^@pytest.mark.alone$$' tests)

help:
	@echo 'make quickstart   a local lab, a cluster, 60 s of load under faults, a verdict, runs/latest/report.html'
	@echo 'make check        linter, type checker, unit tests that need neither lab nor JVM: two minutes, for each change'
	@echo 'make test         the whole test suite: linter, type checker, tests (what CI runs)'
	@echo 'make test-full    the long checks as well'
	@echo 'make format       ruff: sort imports, format'
	@echo 'make constraints  renew constraints.txt: install the newest versions that pyproject.toml allows, and write them down'
	@echo 'make architecture draw docs/architecture.svg: which folders import which'

quickstart:
	@scripts/setup.sh run
	@.venv/bin/squall run suites/quickstart.yaml

check: lint typecheck
	.venv/bin/python -m pytest -n 2 --dist loadgroup -m 'not full and not lab and not spark' $(UNIT_TESTS)

test: ready
	.venv/bin/python -m pytest -m 'alone and not full' --durations=0 --durations-min=1 $(TIMED_TESTS)
	.venv/bin/python -m pytest -n 4 --dist loadgroup -m 'not alone and not full' --durations=15 --durations-min=5

test-full: ready
	.venv/bin/python -m pytest -m alone --durations=0 --durations-min=1 $(TIMED_TESTS)
	.venv/bin/python -m pytest -n 2 --dist loadgroup -m 'not alone'

# The type checker takes one processor for a minute. Meanwhile another compiles the tests, which each worker would else
# do for itself.
.PHONY: ready collected
ready: setup-test
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target typecheck collected lint

collected: setup-test
	@.venv/bin/python -m pytest --collect-only -qq >.venv/collected.txt || { cat .venv/collected.txt; exit 1; }

.PHONY: setup-test
setup-test:
	@scripts/setup.sh test

lint: setup-test
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

typecheck: setup-test
	.venv/bin/mypy

format: setup-test
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

constraints: setup-test
	.venv/bin/python -m pip install --upgrade --upgrade-strategy eager --editable '.[test]'
	.venv/bin/python -m pip check
	{ head -n 1 constraints.txt; .venv/bin/python -m pip freeze --exclude-editable | grep -E '^[A-Za-z0-9._-]+==[^ ]+$$'; } >.venv/constraints.txt
	mv .venv/constraints.txt constraints.txt

architecture: setup-test
	.venv/bin/python scripts/architecture.py

clean:
	rm -rf .venv build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
