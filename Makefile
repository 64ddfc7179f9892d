# `make help` lists the targets. Everything is made in .venv; nothing outside of this folder is written.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,$(shell \
	$(name) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(name))) python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# uv installs the packages if it is there
UV := $(shell command -v uv 2>/dev/null)
TESTS ?= tests
# tests of services mostly wait, for Java to start
PROCESSES ?= 3
# the tests of recovery also wait, for time-outs and restarts
RECOVERY_PROCESSES ?= 4
# the tests of recovery that have commands of their own: test-lost-disks, test-object-store, test-upgrades, test-standby
OF_THEIR_OWN := test_lost_disks.py test_rescaling.py test_store_faults.py \
	test_upgrades.py test_golden_checkpoints.py test_standby.py
# among them the test of a row of the tables of faults
ROW_AMONG_THEM := tests/recovery/test_upgrades.py::test_s13_a_change_that_loses_nothing_goes_on_by_itself
MINUTES ?= 5
TIMES ?= 10
CASES ?= 1000000
CHAOS_MINUTES := $(if $(filter command line,$(origin MINUTES)),$(MINUTES),20)
CONTAINER_TESTS ?= tests/unit/kafka tests/service/test_pipelines.py tests/service/test_event_time.py tests/service/test_conformance_in_service.py

.PHONY: help setup kernels class-archive demo test test-long lint format test-recovery cluster test-monitoring test-lab test-page docs-pictures page-pictures test-image test-package test-onnx test-security test-registry \
	test-object-store test-lost-disks test-upgrades test-standby \
	test-bounds conformance test-random fuzz fuzz-nulls fuzz-formats fuzz-files audit soak chaos simulate mutants test-containers bench bench-peers bench-check bench-engine bench-state bench-standby bench-lost bench-tables bench-formats bench-idle bench-compile bench-batch bench-costs bench-scale bench-growth docs lock clean golden-checkpoint

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  \1	/p' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## make .venv with everything that Sluice needs (the other targets do it by themselves)
	@:

kernels: setup ## compile all kernels now, in place of each at its first use
	@$(BIN)/sluice compile

class-archive: $(VENV)/.archive ## write an archive of Spark's Java classes (150 MB): each start of a service then takes half of Java's processor time
	@:

# The tests start Spark so often that they make it first.
$(VENV)/.archive: deploy/ivy.xml $(VENV)/.installed | $(VENV)/.ready
	@$(BIN)/python -m sluice.spark.java.write_class_archive && touch $@

demo: setup ## play the flights of 2013 through Sluice; ARGS="--seconds 30" hands options on
	@$(BIN)/sluice-demo run $(ARGS)

# mypy, which uses one processor for a minute, runs beside the tests. A worker that crashes ends them: with a new worker
# in its place xdist waits for ever.
test: $(VENV)/.archive ## lint, types and all tests but the slow ones; TESTS=tests/unit/engine runs some, ARGS="-k join" hands options on
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary & types=$$!; \
	$(BIN)/python -m pytest -m "not slow and not registry and not prometheus and not chromium and not s3" -n $(PROCESSES) --max-worker-restart 0 --dist loadfile --no-loadscope-reorder $(TESTS) $(ARGS); \
	tests=$$?; wait $$types || { echo "mypy has found errors: see above"; exit 1; }; exit $$tests

test-long: setup $(VENV)/.archive ## tests of the service, the demo and the rules that take a minute or more each; five minutes of make chaos
	@$(BIN)/python -m pytest -m "slow and not s3" -n $(PROCESSES) --dist loadfile tests/service tests/demo tests/spec tests/docs tests/chaos --ignore=tests/service/test_conformance_in_service.py --ignore=tests/service/test_security.py $(ARGS)

lint: setup ## ruff and mypy
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary

format: setup ## let ruff format the sources
	@$(BIN)/ruff format

test-recovery: setup $(VENV)/.archive ## kill, cut off and damage everything that docs/exactly-once.md and docs/state.md speak of
	@$(BIN)/python -m pytest -n $(RECOVERY_PROCESSES) --dist worksteal tests/recovery $(ROW_AMONG_THEM) $(OF_THEIR_OWN:%=--ignore=tests/recovery/%) $(ARGS)

cluster: setup $(VENV)/.archive ## the same files on a Spark master with workers, a local cluster and pods, whatever dies; ARGS hands options on
	@$(BIN)/python -m pytest tests/cluster $(ARGS)

test-monitoring: setup ## the service, a real Prometheus (Debian: apt install prometheus), and the board
	@command -v prometheus >/dev/null && command -v promtool >/dev/null || { echo "prometheus is not installed (Debian, Ubuntu: apt install prometheus)"; exit 1; }
	@$(BIN)/python -m pytest tests/deploy/test_monitoring.py tests/deploy/test_alerts_in_service.py $(ARGS)

test-lab: setup ## the page of `sluice lab` in a headless Chromium (Debian, Ubuntu: apt install chromium)
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { echo "chromium is not installed (Debian, Ubuntu: apt install chromium)"; exit 1; }
	@$(BIN)/python -m pytest tests/lab $(ARGS)

test-page: setup ## the page of a running service in a headless Chromium (Debian, Ubuntu: apt install chromium)
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { echo "chromium is not installed (Debian, Ubuntu: apt install chromium)"; exit 1; }
	@$(BIN)/python -m pytest tests/page $(ARGS)

page-pictures: setup ## draw the pictures of docs/page.md from a running service; needs Chromium
	@PYTHONPATH=service:. $(BIN)/python -m tests.page.shop

docs-pictures: setup ## draw the pictures of docs/ from the tables and examples that they show
	@$(BIN)/python -m tests.docs.pictures

test-security: setup ## every way to be let in by the brokers: SASL, TLS, mutual TLS
	@$(BIN)/python -m pytest tests/service/test_security.py $(ARGS)

test-image: setup ## what the Dockerfile says, done with plain processes, without a network
	@$(BIN)/python -m pytest --log-cli-level=INFO tests/deploy/test_image.py tests/deploy/test_compose.py $(ARGS)

test-package: setup ## build the wheel, install its core into a new environment without a network, run check, replay and lab there (fetches 150 MB)
	@$(BIN)/python -m pytest tests/package $(ARGS)

test-onnx: setup ## the recipe with a model in ONNX, with its runtime in an environment of its own, build/onnx (fetches 40 MB)
	@$(BIN)/python -m venv build/onnx
	@$(BIN)/python -c "import numpy; print(numpy.__path__[0].removesuffix('/numpy'))" > $$(build/onnx/bin/python -c "import site; print(site.getsitepackages()[0])")/sluice.pth
	@build/onnx/bin/python -m pip --quiet --disable-pip-version-check install 'onnxruntime>=1.20' onnx
	@PYTHONPATH=service:. build/onnx/bin/python -m pytest tests/onnx $(ARGS)

test-drafts: setup ## `sluice init` for each shape of tests/draft/corpus, the drafts in services with a broker, each killed once (10 minutes); ARGS="csv sensors" chooses some
	@PYTHONPATH=service:. $(BIN)/python -m tests.draft.in_service $(ARGS)

test-registry: setup ## tests with a real schema registry, which is fetched once (110 MB); ARGS hands options on
	@$(BIN)/python -m pytest -m registry tests/registry tests/service/test_formats.py $(ARGS)

test-object-store: setup $(VENV)/.archive ## the store of `state:` on a real S3 server, S3Proxy, which is fetched once (93 MB)
	@$(BIN)/python -m pytest tests/object_store tests/recovery/test_store_faults.py $(ARGS)

test-lost-disks: setup $(VENV)/.archive ## services lose their machines, or get other numbers of buckets, and go on; SLUICE_TEST_LOSSES=50 loses more, SLUICE_TEST_SEED=8 at other moments
	@$(BIN)/python -m pytest -n $(PROCESSES) --dist load tests/recovery/test_lost_disks.py tests/recovery/test_rescaling.py $(ARGS)

test-upgrades: setup $(VENV)/.archive ## running services go on with changed pipeline files, and with checkpoints of earlier versions
	@$(BIN)/python -m pytest -n $(RECOVERY_PROCESSES) --dist worksteal tests/recovery/test_upgrades.py tests/recovery/test_golden_checkpoints.py $(ARGS)

test-standby: setup $(VENV)/.archive ## a second instance waits, and takes over when the first one is killed, frozen or stopped
	@$(BIN)/python -m pytest -n $(RECOVERY_PROCESSES) --dist worksteal tests/recovery/test_standby.py $(ARGS)

golden-checkpoint: setup ## write the checkpoint of this version that the tests of later versions go on from (tests/recovery/golden)
	@$(BIN)/python -m tests.recovery.golden_checkpoint

test-containers: setup ## tests of the service against Apache Kafka in a container (testcontainers); needs Docker
	@SLUICE_TEST_BROKER=docker $(BIN)/python -m pytest $(CONTAINER_TESTS) $(ARGS)

conformance: setup $(VENV)/.archive ## all conformance vectors and random operators through Kafka and Spark; SLUICE_SEED=7 draws others
	@$(BIN)/python -m pytest tests/service/test_conformance_in_service.py $(ARGS)

test-random: setup ## the random tests of the rules and the engine, each with TIMES=10 times its cases; SLUICE_SEED=7 draws others; TESTS=tests/spec/test_unions.py takes some
	@SLUICE_TEST_CASES=$(TIMES) PYTHONPATH=. $(BIN)/python -m pytest -p tests.random_cases -m "not slow" -n $(PROCESSES) --dist worksteal $(if $(filter command line environment,$(origin TESTS)),$(TESTS),tests/spec tests/unit/engine tests/service/test_spread.py) $(ARGS)

fuzz: setup ## compare the engine with the oracle on random cases: make fuzz MINUTES=10; SLUICE_SEED=7 draws those of a seed again
	@PYTHONPATH=. $(BIN)/python -m tests.spec.fuzz $(MINUTES) $(SLUICE_SEED)

chaos: setup $(VENV)/.archive ## break everything in an order that SEED chooses, for MINUTES=20, beside three brokers, and check all outputs
	@PYTHONPATH=. $(BIN)/python -m tests.chaos $(if $(SEED),--seed $(SEED)) --minutes $(CHAOS_MINUTES) $(ARGS)

soak: setup $(VENV)/.archive ## a service under load for MINUTES=60: half of its peak, three times that, a hot key, two million keys, SIGKILLs; ARGS="half kill"
	@PYTHONPATH=service:. $(BIN)/python -m tests.chaos.soak --minutes $(if $(filter command line,$(origin MINUTES)),$(MINUTES),60) $(ARGS)

simulate: setup ## the exactly-once half in a simulated world: make simulate SEED=7 SCHEDULES=1000; ARGS=--trace replays SEED step by step
	@PYTHONPATH=service:. $(BIN)/python -m tests.chaos.simulation $(if $(SEED),--seed $(SEED)) $(if $(SCHEDULES),--schedules $(SCHEDULES)) $(ARGS)

mutants: setup $(VENV)/.archive ## plant each bug of tests/chaos/mutants, and show whether the campaign finds it; ARGS=no-skip takes one
	@PYTHONPATH=. $(BIN)/python -m tests.chaos.mutants $(ARGS)

fuzz-nulls: setup ## compare the engine with the oracle of null, key by key, on CASES=1000000 random cases
	@PYTHONPATH=. $(BIN)/python -m tests.spec.null_by_key $(CASES) $(SLUICE_SEED)

fuzz-formats: setup ## decode CASES=1000000 damaged records per format, from records that were grown by coverage; ARGS="--seed 7 --formats json csv"
	@PYTHONPATH=service:. $(BIN)/python -m tests.hostile.fuzz_formats --cases $(CASES) $(ARGS)

fuzz-files: setup ## check CASES=1000000 damaged pipeline files, grown by coverage (a day; CASES=20000: half an hour); ARGS="--seed 7"
	@PYTHONPATH=service:. $(BIN)/python -m tests.hostile.fuzz_files --cases $(CASES) $(ARGS)

audit: setup ## known vulnerabilities and licences of all Python packages, from the package index that pip is configured with
	@PYTHONPATH=service:. $(BIN)/python -m deploy.audit

test-bounds: setup ## the engine and the formats with every index of a compiled loop looked at
	@NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=build/bounds $(BIN)/python -m pytest tests/spec tests/unit/columns tests/unit/engine tests/unit/wire tests/unit/replayer $(ARGS)

bench: setup ## measure throughput and latency on this machine; ARGS hands options on
	@$(BIN)/python -m benchmarks $(ARGS)

bench-engine: setup ## measure the engine alone, without Spark and Kafka; ARGS hands options on
	@$(BIN)/python -m benchmarks.engine $(ARGS)

bench-lost: setup ## measure how a service with a large state goes on after its machine was lost; ARGS="--keys 20000"
	@$(BIN)/python -m benchmarks.lost_machine $(ARGS)

bench-tables: setup ## measure how long a table takes to load, and the memory that it needs; ARGS="--rows 100000"
	@$(BIN)/python -m benchmarks.tables $(ARGS)

bench-standby: setup ## kill the leader of two instances twenty times, and measure until the standby writes; ARGS="--rounds 5"
	@$(BIN)/python -m benchmarks.standby $(ARGS)

bench-state: setup ## measure what a batch costs over a large state, and a restart; ARGS="--keys 100000" or --alone
	@$(BIN)/python -m benchmarks.state $(ARGS)

bench-formats: setup ## measure how fast records of each format are read and written
	@$(BIN)/python -m benchmarks.formats

bench-compile: setup ## measure what the compilation of the kernels costs; ARGS=examples/flights.yaml for those of a pipeline
	@$(BIN)/python -m benchmarks.compile $(ARGS)

bench-peers: setup ## Sluice, Kafka Streams, Flink, Bytewax and Quix on one broker, outputs checked (hours); ARGS="--runs 1 --workloads pass"
	@$(BIN)/python -m benchmarks.peers $(ARGS)

bench-check: setup ## compare Sluice's ratio to Kafka Streams with the ratio that was accepted last (an hour)
	@$(BIN)/python -m benchmarks.peers --systems "Kafka Streams" Sluice --check $(ARGS)

bench-batch: setup ## measure where the time of a batch goes, phase by phase, at 1,000 and 10,000 records a second; ARGS=--write puts it into docs
	@$(BIN)/python -m benchmarks.batch_account $(ARGS)

bench-costs: setup ## measure what a record costs in each process while records wait, and where the memory is; ARGS=--write puts it into docs
	@$(BIN)/python -m benchmarks.record_costs $(ARGS)

bench-scale: setup ## measure what each part costs on a Spark cluster, and model larger ones; ARGS=--write puts it into docs
	@$(BIN)/python -m benchmarks.scale $(ARGS)

bench-growth: setup ## measure how the throughput changes with window length, keys, size of records, topic partitions, buckets, cores; ARGS=--write draws the plots of the docs
	@$(BIN)/python -m benchmarks.growth $(ARGS)

bench-idle: setup ## measure what the service costs while nothing comes; ARGS hands options on
	@$(BIN)/python -m benchmarks.idle $(ARGS)

docs: setup ## build the documentation as a site with a search, in build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet $(ARGS)
	@echo "The site is in build/site. With its search: $(BIN)/python -m http.server --directory build/site 8000"

lock: ## choose the newest versions that pyproject.toml allows (needs uv)
	uv pip compile pyproject.toml --all-extras --no-extra onnx --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--quiet --upgrade --custom-compile-command "make lock" --output-file requirements.lock
	echo hatchling | uv pip compile pyproject.toml - --extra demo --extra object-store --extra registry --constraint requirements.lock --universal \
		--python-version 3.11 --generate-hashes --no-emit-index-url --quiet --upgrade --custom-compile-command "make lock" \
		--output-file deploy/requirements.lock

clean: ## remove everything that the other targets made
	rm -rf $(VENV) .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The interpreters are looked at first, since all that follows takes minutes.
$(VENV)/.checked:
	@python=$(PYTHON); \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sluice: Python 3.11 or newer is needed, and %s is \
	%d.%d. Install one (Debian, Ubuntu: apt install python3 python3-venv), or name it: make PYTHON=/path/to/python3" \
	% (sys.argv[1], *sys.version_info[:2]))' $$python && \
	PYTHONPATH=service $$python -m sluice.jvm.java && \
	$$python -m venv $(VENV)
	@touch $@

$(VENV)/.locked: requirements.lock $(VENV)/.checked
	@echo "Installing the Python packages (1.3 GB, of which 600 MB are fetched, a minute or two) ..."
	@$(if $(UV),uv pip install --quiet --python $(BIN)/python --require-hashes --requirement requirements.lock \
		|| )$(PIP) install --require-hashes --requirement requirements.lock
	@touch $@

$(VENV)/.installed: pyproject.toml $(VENV)/.locked
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

# Only what the demo and the example of the README need. The rest is compiled at its first use, or by `make kernels`.
# The jars come over the network while the processors compile.
$(VENV)/.ready: deploy/ivy.xml $(VENV)/.installed $(shell find service/sluice/columns service/sluice/engine service/sluice/wire -name '*.py')
	@$(BIN)/python -m sluice.jvm.jars spark broker & jars=$$!; \
	echo "Compiling the kernels of the demo ..."; \
	$(BIN)/sluice compile examples/flights.yaml examples/average.yaml; compiled=$$?; \
	wait $$jars && exit $$compiled
	@$(BIN)/python -m compileall -q service
	@touch $@
