# Recipes of the data plane and its Python package. Included by the root Makefile.

JOBS ?= $(shell nproc)
CPP_FILES = $(shell git ls-files 'dataplane/*.cc' 'dataplane/*.h')
PYTHON_INCLUDE ?= $(shell /usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
PYTHON_SOABI ?= $(shell /usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_config_var("SOABI"))')

.PHONY: build-dataplane
build-dataplane: ## dataplane/build/release: peercached and the extension for this machine's Python
	@echo "==> building the data plane (a few minutes when cold)"
	@cd dataplane && cmake --preset release \
		-DPEERCACHE_PYTHON_INCLUDE=$(PYTHON_INCLUDE) -DPEERCACHE_PYTHON_SOABI=$(PYTHON_SOABI) \
		-DPEERCACHE_PYBIND11_INCLUDE="$$(python/pybind11.sh)" >/dev/null && \
		cmake --build build/release -j $(JOBS)

# One sanitizer: configure, build, run.
define run_preset
	@echo "==> C++ unit tests, $(1) (the build takes a few minutes when cold)"
	@cd dataplane && cmake --preset $(1) >/dev/null && cmake --build build/$(1) -j $(JOBS) && \
		ctest --preset $(1) -j $(JOBS)
endef

.PHONY: test-cpp
test-cpp: ## C++ unit tests under AddressSanitizer and UndefinedBehaviorSanitizer
	$(call run_preset,asan)

.PHONY: test-tsan
test-tsan: ## C++ unit tests under ThreadSanitizer
	$(call run_preset,tsan)

.PHONY: test-python
test-python: build-dataplane ## Python tests, with real nodes and SGLang's real HiCache
	@echo "==> Python tests"
	@dataplane/python/test.sh -q

.PHONY: format
format: ## Format the C++ and Python code
	clang-format -i $(CPP_FILES)
	ruff format dataplane/python e2e/engine/python

.PHONY: lint-cpp
lint-cpp:
	@echo "==> clang-format"
	@clang-format --dry-run -Werror $(CPP_FILES)

.PHONY: lint-python
lint-python:
	@echo "==> ruff, mypy"
	@cd dataplane && ruff check python && ruff format --check python && mypy
	@cd e2e/engine && ruff check python && ruff format --check python && mypy
