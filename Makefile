# One command each. Needs Python >= 3.11, Java >= 17 and make; works in any directory, also one with spaces in its path, so programs are started as `.venv/bin/python -m …`: scripts would name an absolute path.

PYTHON ?=
VENV := .venv/bin/python
DEMO := out/quickstart.ipynb
# The version of each package; `make setup LOCK=` installs the newest ones that pyproject.toml allows.
LOCK ?= requirements.lock
# How many processes run the tests; those of one directory stay in one, as they share servers and Spark.
PROCESSES ?= 2
# What `make check` runs.
QUICK := tests/language tests/functions tests/operators tests/planning tests/mapping tests/docs tests/test_architecture.py tests/test_config.py
# These are processes that run until they are told to stop; the tests of the cluster start them.
NODES := --ignore=notebooks/manager.ipynb --ignore=notebooks/worker.ipynb --ignore=notebooks/server.ipynb
# tests/notebooks/test_quickstart.py runs it with papermill, and looks at what its cells show.
LOOKED_AT := --ignore=notebooks/quickstart.ipynb

# A kernel called `spdist` that another installation registered must not be taken for ours.
export JUPYTER_PATH := $(CURDIR)/.venv/share/jupyter$(if $(JUPYTER_PATH),:$(JUPYTER_PATH))
export JUPYTER_PREFER_ENV_PATH := 1
export PYDEVD_DISABLE_FILE_VALIDATION := 1
# The tests start hundreds of processes, each of which would compile all that it imports: 7 s of processor time in place of 2.
unexport PYTHONDONTWRITEBYTECODE

# The environment knows its own path: install again after the directory was moved.
MOVED := $(shell [ "$$(cat .venv/.installed 2>/dev/null)" = "$$(pwd)" ] || echo FORCE)

.PHONY: help setup demo test check quick docs reference lint faults failovers takeovers updates databases ha chaos deployments executors image fuzz fuzz-programs chaos-sim ledger bench bench-payloads bench-engine bench-latency bench-kafka bench-groups bench-frames bench-cluster tables lock clean java FORCE
.DEFAULT_GOAL := help

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: java .venv/.installed ## install everything into .venv, and the notebook kernel "Python (spdist)"
	@echo "Ready: \`make demo\` runs the quickstart; \`$(VENV) -m jupyterlab notebooks\` opens the notebooks."

demo: java .venv/.installed ## run notebooks/quickstart.ipynb without a screen; the executed notebook goes to out/
	@mkdir -p out
	@$(VENV) -m papermill --engine spdist --progress-bar --log-output notebooks/quickstart.ipynb $(DEMO) || { \
	    echo "The demo failed; $(DEMO) shows the cell and the error." >&2; exit 1; }
	@$(VENV) -c 'import nbformat, sys; cells = nbformat.read(sys.argv[1], 4).cells; \
	    said = lambda c: [l for o in c.get("outputs", []) if o.get("name") == "stdout" for l in o.text.splitlines()]; \
	    print("Executed notebook:", sys.argv[1]); \
	    print("Result:", *[l for c in cells if c.id == "compare" for l in said(c)], *said(cells[-1])[-1:], sep="\n  ")' $(DEMO)

test: lint java ## lint, then every test: units, properties, Spark, cluster, notebooks
	@$(VENV) -m tests.runtime.class_archive
	@$(VENV) -m pytest -n $(PROCESSES) --no-loadscope-reorder --durations=20 --nbmake --nbmake-timeout=600 $(NODES) $(LOOKED_AT) tests notebooks

check: .venv/.installed ## lint, and meanwhile the tests that need no JVM, server or browser: a minute and a half
	@$(MAKE) --no-print-directory -j 2 lint quick

quick: .venv/.installed
	@$(VENV) -m pytest -q -n $(PROCESSES) -p no:nbmake -p no:schemathesis -m "not slow" $(QUICK)

lint: .venv/.installed ## style, types, layers, notebooks without outputs
	@$(VENV) -m ruff check .
	@$(VENV) -m ruff format --check .
	@$(VENV) -m mypy
	@$(VENV) -c 'from importlinter.cli import lint_imports_command as run; run()'
	@set -- notebooks/*.ipynb; [ ! -e "$$1" ] || $(VENV) -m nbstripout --keep-id --verify "$$@"

faults: java .venv/.installed ## kill -9 two apps on Spark 50 times each, over each transport, while 200,000 events pass
	@SPDIST_KILLS=50 SPDIST_KILL_EVENTS=200000 $(VENV) -m pytest -s tests/faults

updates: java .venv/.installed ## update an app 20 times over each transport while events come in
	@SPDIST_UPDATES=20 $(VENV) -m pytest -s tests/faults/test_updates.py

failovers: java .venv/.installed ## kill the leader 10 times over SQLite, PostgreSQL and MariaDB: what stops, and for how long
	@$(VENV) -m tests.faults.failovers

takeovers: java .venv/.installed ## kill a worker 5 times at the shipped times: when its groups run on the other one
	@$(VENV) -m tests.faults.takeovers

databases: java .venv/.installed ## run the cluster's tests on SQLite, PostgreSQL and MariaDB, and print a table
	@$(VENV) -m tests.cluster.databases

ha: java .venv/.installed ## let the active one of two servers fail 50 times, over PostgreSQL and Kafka (Linux, root)
	@$(VENV) -m tests.faults.ha_rounds

chaos: java .venv/.installed ## let 30 faults happen to two managers and three workers over PostgreSQL and Kafka (Linux, root)
	@$(VENV) -m tests.faults.chaos

deployments: java .venv/.installed ## kill and stop servers of each deployment without managers while requests come in; prints a table
	@$(VENV) -m tests.faults.deployments

executors: java .venv/.installed ## kill executors of a Spark standalone master in networks of their own (Linux, root)
	@$(VENV) -m tests.faults.executors

image: java .venv/.installed ## build the container image (podman or docker; BASE= another base) and try it: a server, a cluster
	@$(VENV) -m tests.deploy.image $(if $(BASE),--base "$(BASE)")

fuzz: .venv/.installed ## check, plan and run 100,000 damaged apps in two processes; goes on where it was left (out/fuzz.jsonl)
	@$(VENV) -m tests.properties.fuzz

fuzz-programs: .venv/.installed ## run 10,000 random apps by their operators and by their programs; goes on where it was left
	@$(VENV) -m tests.properties.fuzz_programs

chaos-sim: .venv/.installed ## 100,000 schedules of the election, 10,000 of the cluster and 100,000 of servers of type ha in virtual time
	@$(VENV) -m tests.properties.chaos_sim

bench: .venv/.installed ## measure the local engine and the embedded log, as ratios to plain Python and plain SQLite
	@$(VENV) tests/bench/run.py

bench-payloads: .venv/.installed ## measure payloads in, through the engine, and out, many together compared with one by one
	@$(VENV) -m tests.bench.payloads

bench-engine: .venv/.installed ## measure the local engine on its workloads, compared with Siddhi's own engine where Maven finds it
	@$(VENV) -m tests.bench.engine

bench-latency: .venv/.installed ## measure how long events take between Kafka topics: in real time, in micro-batches
	@$(VENV) -m tests.bench.latency

bench-kafka: java .venv/.installed ## measure apps between Kafka topics, compared with Spark alone and Siddhi's engine
	@$(VENV) -m tests.bench.over_kafka

bench-groups: java .venv/.installed ## measure three groups in a chain compared with one alone, over the log, Kafka and NATS
	@$(VENV) -m tests.bench.groups

bench-frames: java .venv/.installed ## measure an app over Spark DataFrames of 10,000,000 rows, compared with mapInArrow alone
	@$(VENV) -m tests.bench.frames

bench-cluster: .venv/.installed ## measure heartbeats and deploying with 200 apps on three workers without Spark
	@$(VENV) -m tests.bench.cluster

tables: .venv/.installed ## write spdist/language/parsing/tables.json: what lark makes of the grammar
	@$(VENV) -m spdist.language.parsing.tables

ledger: .venv/.installed ## write tests/cases/LEDGER.md: what of SiddhiQL runs
	@$(VENV) -m tests.cases.ledger

reference: .venv/.installed ## write docs/reference: commands, routes, settings, names of the package
	@$(VENV) -m tests.docs.reference

lock: ## write requirements.lock: the newest versions that pyproject.toml allows, for each Python and platform
	@$(VENV) -m uv pip compile --quiet --upgrade --universal --python-version 3.11 --no-header --no-annotate \
	    --extra dev -o requirements.lock pyproject.toml

docs: .venv/.installed ## make pages of docs/, in out/docs
	@$(VENV) -m sphinx -q -W -b html docs out/docs && echo "The docs: out/docs/index.html"

clean: ## delete the environment and everything that was made
	rm -rf .venv out artifacts build dist spark-warehouse .pytest_cache .mypy_cache .ruff_cache .hypothesis \
	    .import_linter_cache
	find spdist widgets tests notebooks -name __pycache__ -type d -prune -exec rm -rf {} +

# ------------------------------------------------------------------------------------------------------ what setup does
LOCKED := $(if $(LOCK),--constraint $(LOCK))

# Also what JupyterLab reads: it is copied into the environment.
.venv/.installed: pyproject.toml $(LOCK) $(wildcard labextension/*.json labextension/static/*) $(MOVED)
	@$(find_python); \
	echo "Python: $$found ($$("$$found" -c 'import platform; print(platform.python_version())'))"; \
	[ -x $(VENV) ] && $(VENV) -c '' 2>/dev/null || "$$found" -m venv --clear .venv
	@echo "Installing about 120 packages, 1 GB on disk; the first time this takes some minutes."
	@# uv takes half as long; where only pip knows how to reach the packages (pip.conf), pip installs them.
	@$(VENV) -m pip install --disable-pip-version-check --quiet uv \
	    && $(VENV) -m uv pip install --python $(VENV) $(LOCKED) -e '.[dev]' \
	    || $(VENV) -m pip install --disable-pip-version-check --progress-bar on $(LOCKED) -e '.[dev]'
	@$(VENV) -m ipykernel install --sys-prefix --name spdist --display-name "Python (spdist)"
	@pwd > .venv/.installed

# Sets `found` to a Python of at least 3.11 that can make environments, or says what is missing and ends.
define find_python
found=; seen=; \
for candidate in $(if $(PYTHON),"$(PYTHON)",python3 python3.14 python3.13 python3.12 python3.11 python); do \
    version=$$("$$candidate" -c 'import platform; print(platform.python_version())' 2>/dev/null) || continue; \
    if ! "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then seen="$$seen $$candidate is $$version;"; continue; fi; \
    if ! "$$candidate" -c 'import venv, ensurepip' 2>/dev/null; then seen="$$seen $$candidate $$version has no venv module;"; continue; fi; \
    found=$$candidate; break; \
done; \
if [ -z "$$found" ]; then \
    echo "spdist needs Python 3.11 or newer with the venv module. Found:$${seen:- none}" >&2; \
    echo "Install it (Debian, Ubuntu: apt install python3 python3-venv; macOS: brew install python@3.12; or conda)," >&2; \
    echo "or name one: make setup PYTHON=/path/to/python3" >&2; exit 1; \
fi
endef

java:
	@java=$${JAVA_HOME:+$$JAVA_HOME/bin/}java; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.*version "\([^"]*\)".*/\1/p' | head -n 1); \
	major=$$(echo "$${version#1.}" | sed 's/[^0-9].*//'); \
	if [ "$${major:-0}" -lt 17 ]; then \
	    echo "spdist needs Java 17 or newer, for Spark. Found: $${version:-none} ($$java)" >&2; \
	    echo "Install it (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17; or conda)," >&2; \
	    echo "and set JAVA_HOME if it is not the first java in PATH." >&2; exit 1; \
	fi
