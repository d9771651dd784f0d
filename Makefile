# Everything starts here; each target sets up what it needs in .venv, and what is there already stays.
PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3.14 python3,$(shell command -v $(name))))
VENV := .venv
BIN := $(VENV)/bin
# What is installed: to run it; for its tests; for its benches, which need the tests' packages, too.
RUN := $(VENV)/.installed
TEST := $(VENV)/.installed-test
BENCH := $(VENV)/.installed-bench
MLFLOW := .venv-mlflow/.installed
KERNELS := $(VENV)/.kernels
TEST_KERNELS := $(VENV)/.kernels-test
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
RUN_TESTS := $(BIN)/python -m pytest -m 'not slow and not containers' --reruns 2 -n $(or $(WORKERS),4) --dist loadfile --no-loadscope-reorder

# A thousand processes that tests start would otherwise each compile the sources again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo serve kernels test test-slow test-mlflow test-3.11 test-3.12 test-3.13 test-3.14 test-processors containers faults cluster-faults silent audit fuzz-api fuzz-reader bench results papers openapi browser libsvm lock check clean

# Editors and type checkers do not read how setuptools maps folders: links to them lie below one, as they are installed.
define LAY_OUT
rm -rf $(VENV)/typed && mkdir -p $(VENV)/typed/streamsvm
ln -sfn $(addprefix $(CURDIR)/,api service reader trainer storage $(wildcard api/python/*.py)) $(VENV)/typed/streamsvm
endef

# To run streamsvm, and no more.
setup: $(RUN)

$(RUN): pyproject.toml setup.py
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable .
	$(LAY_OUT)
	touch $@

# What is imported is compiled then: most of these packages' modules never are, which pip would take half a minute for.
$(TEST): $(RUN)
	$(INSTALL) --no-compile 'pip>=25.1'
	$(INSTALL) --no-compile --group test
	touch $@

$(MLFLOW): pyproject.toml setup.py
	$(PYTHON) -m venv .venv-mlflow
	.venv-mlflow/bin/python -m pip install --quiet --disable-pip-version-check --no-compile 'pip>=25.1'
	.venv-mlflow/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --editable . --group mlflow
	touch $@

$(BENCH): $(TEST)
	$(INSTALL) --group bench
	touch $@

demo: $(RUN)
	$(BIN)/streamsvm demo $(if $(SIZE),--size '$(SIZE)')

# Otherwise the first job would wait for them.
$(KERNELS): $(RUN) $(shell find storage reader trainer -name '*.py')
	$(BIN)/streamsvm warm
	touch $@

# Those that tests of several files call besides.
$(TEST_KERNELS): $(TEST) $(KERNELS) $(wildcard tests/kernels.py tests/contracts/*.py)
	$(BIN)/python -m tests.kernels
	touch $@

kernels: $(TEST_KERNELS)

serve: $(KERNELS)
	$(BIN)/streamsvm serve

# Four at a time, each file's tests in one process, for they share services: half of the time they wait for something.
# In the order of tests/conftest.py: files of few, long tests would otherwise come last, one beside idle processes.
# With the kernels there: otherwise each of the four would compile what it meets first.
# A test that fails is tried twice more: one of nine thousand meets a pause of the machine now and then. The summary names
# those that needed it: each waits for the wrong thing, and is to be mended.
test: $(TEST) $(TEST_KERNELS)
	$(RUN_TESTS)

# The tests of what computes, as on other processors, which round in another way: with OpenBLAS's kernels for each of
# these, and with what numba compiles for any (generic). PROCESSOR=Haswell is one of them, ROOMS=tests/trainer a part.
# SkylakeX needs AVX-512. Zen would be Haswell again: the wheels of numpy and scipy have no kernels of its own.
PROCESSORS := $(if $(shell grep -m1 avx512f /proc/cpuinfo),SkylakeX) Haswell Prescott generic
ROOMS := $(addprefix tests/,trainer reader contracts python)

test-processors: $(addprefix test-as-on-,$(or $(PROCESSOR),$(PROCESSORS)))

test-as-on-%: $(TEST) $(TEST_KERNELS)
	export $(if $(filter generic,$*),NUMBA_CPU_NAME,OPENBLAS_CORETYPE)=$* && \
	  $(BIN)/streamsvm warm && $(BIN)/python -m tests.kernels && $(RUN_TESTS) $(ROOMS)

# The tests under another Python, in an environment of its own: .venv-3.13. Without that Python the target says so and fails.
test-3.11 test-3.12 test-3.13 test-3.14: test-%:
	@python$* --version >/dev/null 2>&1 || { echo "there is no python$*: install it, or put it into PATH"; exit 1; }
	$(MAKE) test PYTHON=python$* VENV=.venv-$*

# Estimators and jobs logged to a server of MLflow, which is half as large as all others need: in an environment of its own.
test-mlflow: $(MLFLOW)
	.venv-mlflow/bin/python -m pytest tests/python/test_follow_examples.py

# Gigabytes under a memory limit the kernel enforces; a quarter of an hour.
test-slow: $(TEST)
	$(BIN)/python -m pytest -m slow

# The image built, the compose file run, killed, upgraded: podman, as root. What it lacks is said, and it is skipped.
# The upgrade is from the commit before; BEFORE=... from another one.
containers: $(TEST)
	$(if $(BEFORE),BEFORE=$(BEFORE)) $(BIN)/python -m pytest -v tests/containers

# A thousand faults of every kind, some twenty minutes; FAULTS=100 a tenth of them, SEED=1 the same ones again.
# As root nothing is skipped; strace and mkfs.ext4 have to be there.
faults: $(TEST)
	FAULTS=$(or $(FAULTS),1000) $(if $(SEED),SEED=$(SEED)) $(BIN)/python -m pytest -q -s tests/faults

# Nodes, processes and networks of Ray clusters killed, paused, cut and filled, a hundred times each: near four hours, as root;
# FAULTS=3 as often, NAME=coordinator those whose test's name has the word.
cluster-faults: $(TEST) $(KERNELS)
	$(BIN)/python -m tests.cluster_faults $(or $(FAULTS),100) $(NAME)

# Two thousand sockets that say nothing, for ten minutes; healthy requests are to be answered within 100 ms.
silent: $(TEST)
	FAULT_MINUTES=$(or $(MINUTES),10) $(BIN)/python -m pytest -q -s tests/faults/test_silent_sockets.py

# Whether a package this one needs has a hole that is known.
audit: $(TEST)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-audit
	$(BIN)/python -m pip_audit --skip-editable

# Requests made up from the OpenAPI document: right ones, wrong ones, none may be answered by 5xx.
fuzz-api: $(TEST)
	FUZZ_REQUESTS=$(or $(REQUESTS),5000) $(BIN)/python -m pytest -q tests/api/test_fuzz.py

# Texts that atheris makes up, to the LIBSVM reader; SECONDS=600 for longer.
fuzz-reader: $(TEST)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check atheris
	$(BIN)/python -m tests.reader.parsers.fuzz_libsvm -max_total_time=$(or $(SECONDS),180)

# make bench NAME=ingest runs one of them; SIZE=10GB generates that much text instead of 1GB.
bench: $(BENCH)
	$(if $(SIZE),SIZE=$(SIZE)) $(BIN)/python -m tests.bench $(NAME)

# What users ask, measured at one commit: writes tests/bench/RESULTS.md. REPEATS, SIZE and BIG make it shorter or longer.
results: $(BENCH)
	$(BIN)/python -m tests.bench.page --write

# The papers' experiments, done again; make papers NAME=ocas does one of them.
papers: $(BENCH)
	$(BIN)/python -m tests.bench.papers $(NAME)

# The interface's description, kept in the tree: run this after a change of a route.
openapi: $(TEST)
	$(BIN)/python -m streamsvm.api.document > api/openapi.json.new
	mv api/openapi.json.new api/openapi.json

# The newest exact versions for the image, with hashes, from PyPI: look at what changed before you keep it.
lock: $(RUN)
	$(INSTALL) uv
	$(BIN)/python deploy/lock.py

# What the tests of the pages need; without it they are skipped.
browser:
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -q && \
	  apt-get install -y -q --no-install-recommends chromium; } || echo "no chromium, and no right to install it"

# svm-predict, which is to agree with the files of kernel machines; without it those tests are skipped.
libsvm:
	@command -v svm-predict >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -q && \
	  apt-get install -y -q --no-install-recommends libsvm-tools; } || echo "no svm-predict, and no right to install it"

check: $(TEST)
	$(LAY_OUT)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/python -m pytest -q tests/test_layout.py

clean:
	rm -rf $(VENV) .venv-3.* .venv-mlflow .containers .pytest_cache .ruff_cache .mypy_cache build *.egg-info
