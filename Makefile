# Everything sets itself up: a virtual environment in .venv with the pinned dependencies.
PYTHON ?= python3
# An interpreter that is named has an environment of its own: .venv-usr-bin-python3.
VENV   := .venv$(if $(findstring command,$(origin PYTHON)),-$(subst /,-,$(PYTHON:/%=%)))
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
BENCH  := $(VENV)/.bench
PROTO  := txnstatus/txnstatus/proto

.PHONY: docs bench bench-peers demo test quick nightly minors sim soak isolation powercut failpoints exhaustive check format proto jar clean help

help:            ## what there is
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

demo: $(STAMP)   ## run the main job: one transaction over five tables, on a three-node cluster
	$(BIN)/txnctl demo

test: $(STAMP)   ## all tests but the campaigns, with lint and types beside them; PYTEST_ARGS="-x tests/unit"
	$(BIN)/python -m tests.run $(PYTEST_ARGS)

quick: $(STAMP)  ## before a change is handed in: lint, types, and what a change breaks most often; PYTEST_ARGS="tests/unit/shard"
	$(BIN)/python -m tests.run --quick $(PYTEST_ARGS)

nightly: $(STAMP) ## the campaigns: what is long, or many of a kind, drawn from SEED (the date); and the other minors of Spark
	TXN_SEED=$(or $(SEED),$(shell date +%Y%m%d)) \
	TXN_FAILPOINT_MATRIX=1 TXN_SOAK_SECONDS=300 TXN_ISOLATION_SECONDS=120 TXN_COMPACTION_SECONDS=120 \
	$(BIN)/python -m tests.run --campaign $(PYTEST_ARGS)
	$(if $(PYTEST_ARGS),,TXN_SPARK_EXECUTORS=1 $(BIN)/python -m pytest -q -m "not campaign" tests/spark)
	$(if $(PYTEST_ARGS),,$(BIN)/python -m tests.minors)

minors: $(STAMP) ## the tests of Spark's SQL with Spark 4.0, 4.1 and 4.2, each in an environment of its own; MINORS="4.0"
	$(BIN)/python -m tests.minors $(MINORS) -- $(PYTEST_ARGS)

soak: $(STAMP)   ## all faults mixed, under load, for SECONDS (600), drawn from SEED (1)
	TXN_SOAK_SECONDS=$(or $(SECONDS),600) TXN_SEED=$(or $(SEED),1) \
	$(BIN)/python -m pytest tests/faults/test_soak.py -s

isolation: $(STAMP) ## contended transactions under all faults, judged by the isolation checker, for SECONDS (600) from SEED (1)
	TXN_ISOLATION_SECONDS=$(or $(SECONDS),600) TXN_SEED=$(or $(SEED),1) \
	$(BIN)/python -m pytest tests/faults/test_isolation.py -s -k whatever

powercut: $(STAMP) ## all nodes lose power CUTS (50) times (root)
	TXN_POWER_CUTS=$(or $(CUTS),50) TXN_SEED=$(or $(SEED),1) \
	$(BIN)/python -m pytest tests/faults/test_power_cut.py -s

failpoints: $(STAMP) ## every failpoint, action and role, under load
	TXN_FAILPOINT_MATRIX=1 TXN_SEED=$(or $(SEED),1) \
	$(BIN)/python -m pytest tests/faults/test_failpoints.py -s

exhaustive: $(STAMP) ## search every state the protocol can reach, with the code as it is shipped
	$(BIN)/python -m tests.exhaustive.search $(if $(STATES),--states $(STATES))

sim: $(STAMP)    ## replay one simulated world, SEED=n, or run many, SEEDS=a..b
	$(BIN)/python -m tests.sim $(or $(SEED),$(SEEDS),0..1000) $(SIM_ARGS)

docs: $(STAMP)   ## the documentation site, in site/: links that lead nowhere fail
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(BENCH)  ## this project beside etcd, PostgreSQL and ZooKeeper on this machine, with a report; BENCH_ARGS="--quick"
	$(BIN)/python -m benchmarks.suite $(BENCH_ARGS)

bench-peers:     ## install the servers of the peers, from Debian (root)
	apt-get install -y --no-install-recommends etcd-server zookeeper postgresql strace default-jre-headless

check: $(STAMP)  ## lint, formatting and strict typing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP) ## format and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

proto: $(STAMP)  ## generate the protobuf code
	$(BIN)/python -m grpc_tools.protoc -I txnstatus --python_out=txnstatus --pyi_out=txnstatus $(PROTO)/*.proto

jar: $(STAMP)    ## build the jar of Spark's catalog from its Java (a JDK, 17 or later)
	$(BIN)/python client/sparksql/build.py

clean:           ## remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache dist

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(call install,dev)
	touch $@

$(BENCH): $(STAMP)
	$(call install,bench)
	touch $@

# By uv, in a third of the time; by pip where uv is not to be had, or does not find what pip is told to look for.
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
install = ($(PIP) uv && $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt -e '.[$(1)]') \
	|| $(PIP) -e '.[$(1)]'
