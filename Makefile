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

include hack/lab/cluster.mk
include hack/release/images.mk
include hack/release/olm.mk
include hack/release/release.mk
include hack/release/site.mk
include hack/lab/soft-rdma.mk
include dataplane/dataplane.mk
include operator/operator.mk
include kubectl/kubectl.mk
include charts/charts.mk
include e2e/e2e.mk

# A group of the list, and which targets it has.
define HELP_GROUPS
Start here=help|deps|demo|build|test|lint|format|clean
Build=build-.*|images.*|generate.*|chart-.*|crd-reference|monitoring-files|cluster-tools|soft-rdma-kernel|e2e-build
Test=test-.*|lint-.*|e2e|cluster-(up|down|status)|fuzz-.*
Measure=bench-.*|ratio.*|disk|nixl|others|scale|pictures
Release=bare-metal|krew|olm-bundle|provenance|push.*|release-.*|sbom|sign|site.*|wheels.*
endef
export HELP_GROUPS

.PHONY: help
help: ## This list
	@sed -nE 's/^([a-z0-9][a-z0-9-]*):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | sort -u | awk -F'\t' ' \
		BEGIN { count = split(ENVIRON["HELP_GROUPS"], groups, "\n") } \
		{ for (i = 1; i <= count && split(groups[i], group, "=") && $$1 !~ "^(" group[2] ")$$"; i++); \
			text[i] = text[i] sprintf("  %-20s %s\n", $$1, $$2) } \
		END { for (i = 1; i <= count; i++) { split(groups[i], group, "="); \
			printf "%s%s\n%s", (i > 1 ? "\n" : ""), group[1], text[i] } }'

.PHONY: build
build: deps ## Build all: peercached, the extension, operator, kubectl plug-in
	@$(MAKE) --no-print-directory build-dataplane build-operator build-kubectl

.PHONY: generate-all
generate-all: generate generate-metrics-doc chart-files chart-readme ## Write everything that is generated and committed

.PHONY: lint
lint: deps ## All linters, and whether generated files are up to date
	@$(MAKE) --no-print-directory lint-rooms lint-shell lint-workflows lint-cpp lint-python lint-go generate-check

.PHONY: lint-rooms
lint-rooms: ## Who may include whom (hack/dev/rooms); files that comments name
	@echo "==> rooms"
	@/usr/bin/python3 hack/dev/rooms

.PHONY: lint-shell
lint-shell:
	@echo "==> shellcheck"
	@$(LIST_FILES) ':!*.md' | xargs -r grep -lE '^#!.*(bash|/sh)|^# shellcheck shell=' | xargs -r shellcheck -x

# Lanes in this order: what others need is compiled from the beginning, and what waits for nothing
# runs, beside lanes that mostly wait. Guests of test-rdma and of test-rdma-kubernetes want
# processors for themselves: they come when all is compiled. hack/dev/lanes says what ends a run, what
# is tried again, and which lanes run at full length (FULL). Three lanes have a full length alone.
if_full = $(filter $(if $(filter all 1,$(FULL)),%,$(FULL)),$(1))
TEST_LANES := e2e-build build-cpp build-tsan test-model test-go test-rules test-site test-checks \
	test-dashboard test-python $(call if_full,ratio-rdma) test-hostile test-faults test-engines \
	test-cpp test-tsan test-stress test-rdma $(call if_full,test-rdma-kubernetes) $(LANES_BESIDE_E2E) \
	test-envtest test-fuzz test-kill test-render test-chart-upgrade test-push \
	$(call if_full,test-families) e2e

# In a lane's recipe: $(1) where not all of the lane is asked for, nor a test by its name; otherwise $(2).
short = $(if $(FULL)$(ONLY),$(2),$(1))

.PHONY: test
test: deps ## All lanes, each in its short form
	@/usr/bin/python3 hack/dev/lanes $(TEST_LANES)

.PHONY: test-all
test-all: deps ## All lanes at full length, and lint (an hour and a half)
	@FULL=all $(MAKE) --no-print-directory test LANES_BESIDE_E2E='lint'

.PHONY: test-under-load
test-under-load: ## make test, or TEST_LANES, beside a spinning process a processor
	@UNDER_LOAD=1 AGAIN=0 $(MAKE) --no-print-directory test

.PHONY: test-checks
test-checks: ## The checks of the lanes, rooms, website and wheels
	@echo "==> what runs the lanes, the helpers of hack/lib.sh, the rooms, the website, wheels"
	@dataplane/python/test.sh -q -p no:cacheprovider ../hack/dev/lanes ../hack/dev/rooms ../hack/release/site ../hack/release/wheels

.PHONY: test-host
test-host: ## C++ unit tests on HOST=debian-13, ubuntu-24.04 or debian-12
	@hack/lab/hosts/test.sh $(HOST)

.PHONY: test-arm64
test-arm64: ## C++ unit tests and two nodes of arm64, under an emulator
	@hack/lab/hosts/arm64.sh

.PHONY: test-kubernetes
test-kubernetes: ## test-envtest, test-chart-upgrade on KUBERNETES=1.31 or 1.34
	@: $${KUBERNETES:?name one: make test-kubernetes KUBERNETES=1.31}
	@unset KUBEBUILDER_ASSETS; $(MAKE) --no-print-directory test-envtest test-chart-upgrade

lint-python: lint-lanes

.PHONY: lint-lanes
lint-lanes:
	@cd dataplane && ruff check --config pyproject.toml ../hack/dev/lanes ../hack/dev/rooms && \
		ruff format --check --config pyproject.toml ../hack/dev/lanes ../hack/dev/rooms && \
		MYPYPATH=../hack/dev/lanes mypy $(addprefix ../hack/dev/lanes/,__main__.py beside.py run.py named.py alarms.py load.py touched.py alone.py) && \
		MYPYPATH=../hack/dev/rooms mypy $(addprefix ../hack/dev/rooms/,__main__.py rooms.py named_files.py threads.py)

.PHONY: clean
clean: ## Remove what was built in the tree (caches outside stay)
	rm -rf bin build dist dataplane/build e2e/out
