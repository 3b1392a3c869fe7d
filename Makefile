# make demo    a scheduler that is killed and goes on, for about fifteen seconds
# make look    the pages on a store full of life, until Ctrl-C; LOOK_ARGS="--port 8181"
# make test    every test, on real servers
# make servers what the tests need of PostgreSQL, MariaDB, Redis, etcd, ZooKeeper, RabbitMQ and NATS; make test does it too
# make simulate  several schedulers on one store, with crashes and lost answers at every call; SEEDS=10000 of them
# make check   lint, types, architecture
# make proto   the proto of the operations, and the Python code of both protos
# make faults  every store under every fault, for about an hour, as root for the full disks; FAULTS=redis SEED=7 SEEDS=3
# make faults-ci  the sharpest faults on every store, in a few minutes
# make mutants  whether the faults find every deliberate defect, for about half an hour; MUTANTS=retry_lost
# make soak    an hour at 200 firings a second on PostgreSQL and Redis: is everything flat? MINUTES=60 RATE=200
# make bench   speed, side by side with APScheduler 3 and task queues; BENCH_ARGS="--quick peers"
# make wheel   build the package, install its wheel into an empty environment, and use it there as the README does
# make oldest  some tests with the oldest versions that pyproject.toml allows, for about four minutes
# make docs    the documentation as a site, in build/docs; a broken link or anchor is an error
# make vendor  whether the scripts of others that the pages and their tests load are what their packages have; needs npm
# make clean   remove what the others made
#
# Each of them makes the virtual environment it needs first. Python 3.10 or later and make are enough.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
# Many tests wait for servers and processes, so there are more workers than processors.
JOBS ?= 4
PYTEST_ARGS ?=
# The stores and the first seed of the fault suite. SEEDS says how many seeds: without it 3, for the simulation 10000.
FAULTS ?= sqlite,postgresql,mariadb,redis,mongodb,etcd,zookeeper
SEED ?= 1
SEEDS ?=

# What is compiled is kept, whatever the environment says: the tests start many interpreters.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo look test servers simulate lint check proto faults faults-ci mutants soak bench wheel oldest docs vendor clean

# What the documents have of the routes.
.PHONY: openapi
openapi: $(VENV)/.dev
	@$(BIN)/python tests/tools/write_http_reference.py

demo: $(VENV)/.core
	@$(BIN)/python examples/demo.py

look: $(VENV)/.core
	@$(BIN)/python examples/pages_demo.py --serve $(LOOK_ARGS)

test: $(VENV)/.dev servers
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(PYTEST_ARGS)

servers:
	@sh tests/servers/install.sh

simulate: $(VENV)/.core
	@$(BIN)/python tests/simulation/simulate.py --seeds $(or $(SEEDS),10000) $(SIMULATE_ARGS)

wheel: $(VENV)/.dev
	@$(BIN)/python tests/tools/wheel.py

oldest: $(VENV)/.dev servers
	@$(BIN)/python tests/tools/oldest.py $(PYTEST_ARGS)

docs: $(VENV)/.docs
	@$(BIN)/python -m sphinx -W --keep-going -q -n -E -b html -d build/doctrees docs build/docs
	@echo "The site is in build/docs/index.html"

vendor: $(VENV)/.dev
	@$(BIN)/python tests/tools/vendored.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/mypy --strict goscheduler tests/typing/user_calls.py

check: lint
	$(BIN)/python -m pytest -q tests/test_architecture.py tests/test_project.py

proto: $(VENV)/.dev
	@$(BIN)/python proto/generate.py

faults: $(VENV)/.dev servers
	$(BIN)/python tests/faults/run.py --stores $(FAULTS) --seed $(SEED) --seeds $(or $(SEEDS),3)
	$(BIN)/python -m pytest -m faults tests/faults $(PYTEST_ARGS)

faults-ci: $(VENV)/.dev servers
	$(BIN)/python tests/faults/run.py --selection ci --seed $(SEED)

mutants: $(VENV)/.dev servers
	$(BIN)/python tests/faults/run.py --mutants $(MUTANTS) --seed $(SEED)

soak: $(VENV)/.dev servers
	$(BIN)/python tests/faults/soak.py --minutes $(or $(MINUTES),60) --rate $(or $(RATE),200)

bench: $(VENV)/.bench servers
	@$(BIN)/python benchmarks/run.py $(BENCH_ARGS)

clean:
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps are older than pyproject.toml when the requirements may have changed: the environment is then made anew.
$(VENV)/.core: pyproject.toml goscheduler/_version.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
		echo "goscheduler needs Python 3.10 or later; '$(PYTHON)' is not. Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Making the virtual environment $(VENV) ..."
	@$(PYTHON) -m venv --clear $(VENV) || { \
		echo "Could not make a virtual environment. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@$(PIP) install --editable '.[sqlalchemy,cli,web]'
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	@echo "Installing the tools for tests and checks ..."
	@$(PIP) install --no-compile --editable '.[dev]'
	@touch $@

$(VENV)/.docs: $(VENV)/.core
	@echo "Installing what makes the site ..."
	@$(PIP) install --no-compile --editable '.[docs]'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	@echo "Installing what the benchmarks compare with ..."
	@$(PIP) install --no-compile --editable '.[bench]'
	@touch $@
