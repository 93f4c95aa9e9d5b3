# PeerCache. `make help` lists what there is; `make demo` and `make test` need nothing else first.
#
# Each part brings its own recipes; this file puts them together.
# Compiler cache hits in any checkout, not only in this folder.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
export LANG := C.UTF-8

SHELL := /bin/bash
.DEFAULT_GOAL := help

# New files too, before they are added: what lint passes on is then what a commit holds.
LIST_FILES := git ls-files --cached --others --exclude-standard

include hack/cluster.mk
include hack/images.mk
include hack/olm.mk
include hack/release.mk
include hack/site.mk
include hack/soft-rdma.mk
include dataplane/dataplane.mk
include operator/operator.mk
include kubectl/kubectl.mk
include charts/charts.mk
include e2e/e2e.mk

.PHONY: help
help: ## This list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z0-9][a-z0-9-]*:.*## / { printf "  %-20s %s\n", $$1, $$2 }' \
		$(MAKEFILE_LIST) | sort -u

.PHONY: build
build: deps ## Build everything natively: peercached, the Python extension, the operator, the kubectl plug-in
	@$(MAKE) --no-print-directory build-dataplane build-operator build-kubectl

.PHONY: generate-all
generate-all: generate generate-metrics-doc chart-files chart-readme ## Everything that is generated and committed

.PHONY: lint
lint: deps ## All linters, who includes whom, and "is what is generated up to date"
	@$(MAKE) --no-print-directory lint-rooms lint-shell lint-workflows lint-cpp lint-python lint-go generate-check

.PHONY: lint-rooms
lint-rooms: ## Which folder may use which: hack/rooms/rooms.txt
	@echo "==> rooms"
	@/usr/bin/python3 hack/rooms

.PHONY: lint-shell
lint-shell:
	@echo "==> shellcheck"
	@$(LIST_FILES) ':!*.md' | xargs -r grep -lE '^#!.*(bash|/sh)|^# shellcheck shell=' | xargs -r shellcheck -x

# Lanes in this order: what others need is compiled from the beginning, and what waits for nothing runs, beside lanes that
# mostly wait. Guests of test-rdma and of test-rdma-kubernetes want processors for themselves: they come when all is compiled.
# hack/lanes says what ends a run, what is tried again, and which lanes run at full length (FULL).
TEST_LANES := e2e-build build-cpp build-tsan test-checks test-python $(LANES_BESIDE) test-dashboard test-faults test-hostile test-cpp test-tsan test-stress test-rdma test-rdma-kubernetes $(LANES_BESIDE_E2E) test-envtest test-model test-fuzz test-kill test-site test-go test-rules test-render test-chart-upgrade test-push e2e

# In a lane's recipe: $(1) where not all of the lane is asked for, nor a test by its name; otherwise $(2).
short = $(if $(FULL)$(ONLY),$(2),$(1))

.PHONY: test
test: deps ## All lanes, each in its short form, which finds most in a minute
	@/usr/bin/python3 hack/lanes $(TEST_LANES)

.PHONY: test-all
test-all: deps ## All lanes at full length, and what RDMA reads cost, and lint: an hour
	@FULL=all $(MAKE) --no-print-directory test LANES_BESIDE='ratio-rdma' LANES_BESIDE_E2E='lint'

.PHONY: test-under-load
test-under-load: ## make test, or TEST_LANES='LANE ...', beside a process that spins on each processor; nothing is tried again
	@UNDER_LOAD=1 AGAIN=0 $(MAKE) --no-print-directory test

.PHONY: test-checks
test-checks: ## The checks of the checks: what ends a run of the lanes, what is tried again, who may include whom, how the website reads pages, wheels
	@echo "==> what runs the lanes, the helpers of hack/lib.sh, the rooms, the website, wheels"
	@dataplane/python/test.sh -q -p no:cacheprovider ../hack/lanes ../hack/rooms ../hack/site ../hack/release/wheels

.PHONY: test-host
test-host: ## HOST=debian-13, ubuntu-24.04 or debian-12: build and run the C++ unit tests there, in a root made from packages; before each release
	@hack/hosts/test.sh $(HOST)

.PHONY: test-arm64
test-arm64: ## C++ unit tests and two nodes of arm64 under an emulator, cross-compiled in a root made from packages
	@hack/hosts/arm64.sh

.PHONY: test-kubernetes
test-kubernetes: ## KUBERNETES=1.31 or 1.34: test-envtest and test-chart-upgrade on the API server of this version; before each release
	@: $${KUBERNETES:?name one: make test-kubernetes KUBERNETES=1.31}
	@unset KUBEBUILDER_ASSETS; $(MAKE) --no-print-directory test-envtest test-chart-upgrade

lint-python: lint-lanes

.PHONY: lint-lanes
lint-lanes:
	@cd dataplane && ruff check --config pyproject.toml ../hack/lanes ../hack/rooms && \
		ruff format --check --config pyproject.toml ../hack/lanes ../hack/rooms && \
		MYPYPATH=../hack/lanes mypy $(addprefix ../hack/lanes/,__main__.py beside.py run.py named.py alarms.py load.py touched.py) && \
		MYPYPATH=../hack/rooms mypy $(addprefix ../hack/rooms/,__main__.py rooms.py)

.PHONY: clean
clean: ## Remove what was built in the tree (caches outside stay)
	rm -rf bin build dist dataplane/build e2e/out
