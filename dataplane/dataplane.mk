# Recipes of the data plane and its Python package. Included by the root Makefile.

JOBS ?= $(shell nproc)
CPP_FILES = $(shell $(LIST_FILES) 'dataplane/*.cc' 'dataplane/*.h')
PYTHON_INCLUDE ?= $(shell /usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
PYTHON_SOABI ?= $(shell /usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_config_var("SOABI"))')

# Several sources compiled as one: half the time when everything is compiled, more after an edit, for which `make test-cpp IN=`
# is there.
UNITY ?= ON

# Configures the folder of a preset with $(3), and builds there with $(2). Lanes that run beside each other take turns: two
# builds in one folder spoil it.
configure_and_build = cd dataplane && mkdir -p build && flock build/$(1).lock bash -c \
	'cmake --preset $(1) -DCMAKE_UNITY_BUILD=$(UNITY) $(3) >/dev/null && cmake --build $(2) -j $(JOBS)'

.PHONY: build-dataplane
build-dataplane: ## peercached, and the extension for this Python
	@echo "==> building the data plane (a few minutes when cold)"
	@$(call configure_and_build,release,build/release,-DPEERCACHE_PYTHON_INCLUDE=$(PYTHON_INCLUDE) \
		-DPEERCACHE_PYTHON_SOABI=$(PYTHON_SOABI) -DPEERCACHE_PYBIND11_INCLUDE="$$(python/pybind11.sh)")

define build_preset
	@echo "==> building the C++ unit tests, $(1) (a few minutes when cold)"
	@$(call configure_and_build,$(1),--preset $(1))
endef

# A short run leaves out the unit tests of short.txt that are named for all presets or for this one.
left_out = $(call short,-E "$$(sed -nE 's/^(all|$(1)) +//p' cmake/short.txt | paste -sd '|')")

# ONLY names one test, or with * and ? many. $(2) tests more than processors run at a time: they wait for a part of their time.
define run_preset
	@echo "==> C++ unit tests, $(1)"
	@cd dataplane && ctest --preset $(1) -j $$(($(JOBS) + $(2))) --no-tests=error $(call left_out,$(1)) \
		$${ONLY:+-R "^$$(sed 's/[^[:alnum:]_]/[&]/g; s/\[[*]\]/.*/g; s/\[[?]\]/./g' <<<"$$ONLY")$$"}
endef

.PHONY: build-cpp
build-cpp: ## What test-cpp runs
	$(call build_preset,asan)

.PHONY: test-cpp
ifdef IN
# One source of a test is compiled by itself here: build/dev is no unity build, whatever UNITY says.
test-cpp:
	@JOBS=$(JOBS) dataplane/test-one.sh
else
test-cpp: build-cpp ## C++ unit tests under ASan and UBSan; IN=pool: those of one folder
	$(call run_preset,asan,2)
endif

.PHONY: build-tsan
build-tsan: ## What test-tsan runs
	$(call build_preset,tsan)

.PHONY: test-tsan
test-tsan: build-tsan ## C++ unit tests under ThreadSanitizer
	$(call run_preset,tsan,2)

.PHONY: build-arm64
build-arm64:
	$(call build_preset,arm64)

.PHONY: test-fabric-model
test-fabric-model: ## RDMA of 400 Gb/s, modelled in virtual time, as a table
	@$(call configure_and_build,asan,build/asan --target fake_verbs_test node_on_fake_test)
	@dataplane/build/asan/src/transport/rdma/fake/fake_verbs_test --gtest_filter='ModelledTest.*' | grep -v '\[info\]'
	@cd dataplane && ctest --preset asan -R '^OnFake[.]' --no-tests=error

.PHONY: test-model
test-model: ## Check the models of the protocols, and that each guard matters
	@echo "==> model checking, $(JOBS) runs at a time (ten minutes; seconds when no model has changed)"
	@JOBS=$(JOBS) dataplane/model/check.sh

.PHONY: build-fuzz
build-fuzz:
	@echo "==> linking the fuzz targets, of what test-cpp has compiled (a few minutes when cold)"
	@$(call configure_and_build,asan,--preset fuzz)

.PHONY: test-fuzz
test-fuzz: build-fuzz ## Fuzz each parser of foreign bytes for FUZZ_SECONDS (10, FULL=1: 60)
	@echo "==> fuzzing, $(JOBS) targets at a time"
	@FUZZ_JOBS=$(JOBS) FUZZ_SECONDS=$${FUZZ_SECONDS:-$(call short,10,60)} dataplane/fuzz/run.sh

.PHONY: fuzz-merge
fuzz-merge: build-fuzz ## Keep the inputs that fuzzing found and that add coverage
	@dataplane/fuzz/merge.sh

.PHONY: generate-metrics-doc
generate-metrics-doc: ## Write docs/metrics.md from the table of metrics
	@echo "==> generating docs/metrics.md"
	@cd dataplane && cmake --preset release >/dev/null && \
		cmake --build build/release -j $(JOBS) --target metrics_doc
	@dataplane/build/release/metrics_doc docs/metrics.md

# What `disk` measures with, and its test.
.PHONY: build-disk
build-disk: build-dataplane
	@cmake --build dataplane/build/release -j $(JOBS) --target disk_benchmark adoption_benchmark

.PHONY: test-python
test-python: build-disk ## Python tests, with real nodes and SGLang's real HiCache
	@echo "==> Python tests"
	@dataplane/python/test.sh -q $(short_pytest) $${ONLY:+"$$ONLY"}

FLEET = python/tests/fleet
# Tests with the mark "full" are those of a lane at full length.
short_pytest = $(call short,-m 'not full')

.PHONY: build-former
build-former: ## The former data plane, which test-faults runs, too (cached)
	@hack/lab/former/build.sh >/dev/null

.PHONY: test-faults
test-faults: build-dataplane build-former ## Hosts that die, freeze, lose frames; 64 nodes; two releases (root)
	@echo "==> faults between hosts (5 minutes)"
	@dataplane/python/test.sh -v -s $(short_pytest) $(if $(ONLY),"$$ONLY",$(addprefix $(FLEET)/test_,$(addsuffix .py,harness \
		faults clears crowd clocks skew token drain replicas worth)))

.PHONY: test-hostile
test-hostile: build-dataplane ## Attacks on real nodes, as a table: attack, bound, measured (root)
	@echo "==> attacks (two minutes)"
	@dataplane/python/test.sh -q "$${ONLY:-python/tests/hostile}"

.PHONY: test-engines
test-engines: build-dataplane ## SGLang, vLLM, LMCache on real nodes (FULL=1: more)
	@echo "==> engines (two minutes; once, a download of 3 GB)"
	@dataplane/python/test.sh -q $(short_pytest) "$${ONLY:-python/tests/engines}"

.PHONY: test-kill
test-kill: ## Kill processes at 110 random points (FULL=1: 650), check every byte
	@echo "==> kill -9 at random points"
	@$(call configure_and_build,asan,build/asan --target pool_test node_integration_test peercached)
	@PEERCACHE_KILL_ROUNDS=$(call short,30,200) dataplane/build/asan/pool_test --gtest_filter='AdoptionKillTest.*'
	@PEERCACHE_KILL_ROUNDS=$(call short,10,50) dataplane/build/asan/node_integration_test --gtest_filter='RestartTest.Whenever*'
	@PEERCACHE_KILL_ROUNDS=$(call short,30,200) dataplane/build/asan/node_integration_test --gtest_filter='RestartOptionsTest.*'
	@PEERCACHE_KILL_ROUNDS=$(call short,40,200) dataplane/build/asan/node_integration_test --gtest_filter='DiskKillTest.*'

.PHONY: test-dashboard
test-dashboard: build-dataplane ## The dashboard of real nodes in a real browser (chromium)
	@echo "==> dashboard in a browser (3 minutes)"
	@PEERCACHE_TESTS=browser dataplane/python/test.sh -q "$${ONLY:-python/tests/browser}"

.PHONY: pictures
pictures: build-dataplane ## Write docs/pictures: the dashboard under load (an hour; root)
	@echo "==> pictures of the dashboard"
	@PEERCACHE_TESTS=browser dataplane/python/test.sh -q -s -o python_files=pictures.py python/tests/browser/pictures.py

# The test that also runs with sanitizers.
STRESS_SANITIZED = test_no_wrong_byte_from_pools_drives_and_the_wire

.PHONY: test-stress
test-stress: build-dataplane ## Tiny pools, drives, restarts; every byte checked; also sanitized
	@echo "==> stress with verification"
	@STRESS_SECONDS=$${STRESS_SECONDS:-$(call short,16,48)} \
		dataplane/python/test.sh -v -s "$${ONLY:-$(FLEET)/test_stress.py}"
ifeq ($(ONLY),$(filter %$(STRESS_SANITIZED),$(ONLY)))
	@$(call configure_and_build,asan,build/asan --target peercached)
	@$(call configure_and_build,tsan,build/tsan --target peercached)
	@for build in asan tsan; do \
		echo "==> stress of nodes with sanitizers, $$build: pages from pools, drives and the wire at once"; \
		PEERCACHE_NODES=$(CURDIR)/dataplane/build/$$build STRESS_SECONDS=$(call short,12,24) \
			dataplane/python/test.sh -v -s $(FLEET)/test_stress.py::$(STRESS_SANITIZED) || exit; \
	done
endif

# Where measurements leave their traces, results and charts.
BENCH_OUT ?= dataplane/build/bench

.PHONY: bench-eviction
bench-eviction: ## Hit ratios of the eviction policies on generated sessions
	@cd dataplane && cmake --preset release >/dev/null && \
		cmake --build build/release -j $(JOBS) --target eviction-replay
	@mkdir -p $(BENCH_OUT)
	@dataplane/bench/eviction/sessions.py > $(BENCH_OUT)/sessions.trace
	@dataplane/bench/eviction/sessions.py --documents 0.12 > $(BENCH_OUT)/documents.trace
	@dataplane/build/release/bench/eviction/eviction-replay \
		$(BENCH_OUT)/sessions.trace $(BENCH_OUT)/documents.trace --json $(BENCH_OUT)/eviction.json
	@/usr/bin/python3 dataplane/bench/eviction/plot.py $(BENCH_OUT)/eviction.json $(BENCH_OUT)/eviction.png

.PHONY: ratios
ratios: build-dataplane ## The data plane beside the limits of this machine (10 minutes; root)
	@echo "==> ratios: measurements and limits in turns"
	@PEERCACHE_ENGINE="$$(e2e/engine/install.sh)" PYTHONPATH=dataplane/python PYTHONDONTWRITEBYTECODE=1 \
		/usr/bin/python3 -m peercache_bench ratios --build dataplane/build/release \
		--engine e2e/engine/python --out $(BENCH_OUT)

.PHONY: others
others: build-dataplane ## Beside Mooncake Store and the original PeerCache (3 minutes; root)
	@echo "==> others: the same calls to each store, in turns"
	@PYTHONPATH=dataplane/python PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m peercache_bench others \
		--build dataplane/build/release --mooncake "$$(hack/lab/others/install.sh mooncake)" \
		--original "$$(hack/lab/others/install.sh original)" --out $(BENCH_OUT)

.PHONY: nixl
nixl: build-dataplane ## NIXL's agent on two nodes, by block size and batch (a minute)
	@echo "==> nixl: every byte is compared"
	@PYTHONPATH=dataplane/python PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m peercache_bench nixl \
		--build dataplane/build/release --python "$$(hack/lab/nixl/install.sh)/bin/python"

# A folder on the drive that is measured; what engines ask for.
DISK ?= $(BENCH_OUT)
TRACE ?= $(BENCH_OUT)/disk.trace

.PHONY: disk
disk: build-disk ## The disk tier beside fio, on the drive of the folder DISK
	@echo "==> the disk tier beside its goals, in $(DISK)"
	@mkdir -p $(BENCH_OUT)
	@dataplane/bench/eviction/sessions.py --requests 2000 > $(BENCH_OUT)/disk.trace
	@PYTHONPATH=dataplane/python PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m peercache_bench disk \
		--build dataplane/build/release --folder $(DISK) --trace $(TRACE) --out-dir $(BENCH_OUT)

.PHONY: format
format: ## Format the C++ and Python code
	clang-format -i $(CPP_FILES)
	ruff format dataplane/python dataplane/bench hack/lab/engines e2e/engine/python

.PHONY: lint-cpp
lint-cpp:
	@echo "==> clang-format"
	@clang-format --dry-run -Werror $(CPP_FILES)
	@echo "==> each changed C++ header by itself"
	@cd dataplane && mkdir -p build && flock build/asan.lock cmake --preset asan -DCMAKE_UNITY_BUILD=$(UNITY) >/dev/null
	@/usr/bin/python3 hack/dev/lanes/alone.py dataplane/build/asan/compile_commands.json

.PHONY: lint-python
lint-python:
	@echo "==> ruff, mypy"
	@cd dataplane && ruff check python bench ../hack/lab/engines && ruff format --check python bench ../hack/lab/engines && mypy
	@cd dataplane && for script in bench/eviction/*.py bench/gpu/*.py ../hack/lab/engines/*.py; do mypy "$$script" || exit; done; \
		MYPYPATH=../hack/lab/engines/sglang_cpu mypy -p peercache_sglang_cpu
	@cd e2e/engine && ruff check python && ruff format --check python && mypy
