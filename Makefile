# Two commands are enough: `make quickstart` and `make test`. Each does all the set-up it needs.
.PHONY: help quickstart check test test-full lint typecheck format constraints clean
.DEFAULT_GOAL := help

# Tests that start no lab, no JVM, no cluster of processes and no long simulation: the loop of a change.
UNIT_TESTS := tests/test_architecture.py tests/docs/test_transcripts.py \
	$(addprefix tests/nodes/,broker metadata protocol raft replication storage test_config.py) \
	$(wildcard tests/nemesis/test_*.py) $(wildcard tests/workloads/test_*.py) \
	$(addprefix tests/results/test_,history.py parquet_files.py render.py required.py segments.py store.py) \
	$(patsubst %,tests/harness/test_%.py,benching campaign cli display dry_run faults help hostile_input included_suites \
	inventory named_suites plan printed_commands refusals refused_scenarios suite yaml_source)

PYTHON_PACKAGES := nodes workloads nemesis results harness benchmarks

help:
	@echo 'make quickstart   a local lab, a cluster, 60 s of load under faults, a verdict, runs/latest/report.html'
	@echo 'make check        linter, type checker, unit tests that need neither lab nor JVM: two minutes, for each change'
	@echo 'make test         the whole test suite: linter, type checker, tests (what CI runs)'
	@echo 'make test-full    the long checks as well'
	@echo 'make format       ruff: sort imports, format'
	@echo 'make constraints  renew constraints.txt: install the newest versions that pyproject.toml allows, and write them down'

quickstart:
	@scripts/setup.sh run
	@.venv/bin/squall run suites/quickstart.yaml

check: lint typecheck
	.venv/bin/python -m pytest -n 2 --dist loadgroup -m 'not full and not lab and not spark' $(UNIT_TESTS)

test: lint typecheck
	.venv/bin/python -m pytest -n 2 --dist loadgroup -m 'not full' --durations=15 --durations-min=5

test-full: lint typecheck
	.venv/bin/python -m pytest -n 2 --dist loadgroup

.PHONY: setup-test
setup-test:
	@scripts/setup.sh test

lint: setup-test
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

typecheck: setup-test
	MYPYPATH=.typing .venv/bin/mypy $(PYTHON_PACKAGES:%=.typing/squall/%)

format: setup-test
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

constraints: setup-test
	.venv/bin/python -m pip install --upgrade --upgrade-strategy eager --editable '.[test]'
	.venv/bin/python -m pip check
	{ head -n 1 constraints.txt; .venv/bin/python -m pip freeze --exclude-editable | grep -E '^[A-Za-z0-9._-]+==[^ ]+$$'; } >.venv/constraints.txt
	mv .venv/constraints.txt constraints.txt

clean:
	rm -rf .venv .typing build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
