# PeerCache. `make help` lists what there is; `make demo` and `make test` need nothing else first.
#
# Each part brings its own recipes; this file puts them together.
# Compiler cache hits in any checkout, not only in this folder.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

SHELL := /bin/bash
.DEFAULT_GOAL := help

# New files too, before they are added: what lint passes on is then what a commit holds.
LIST_FILES := git ls-files --cached --others --exclude-standard

include hack/cluster.mk
include hack/images.mk
include hack/olm.mk
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
lint: deps ## All linters and "is what is generated up to date"
	@$(MAKE) --no-print-directory lint-shell lint-cpp lint-python lint-go generate-check

.PHONY: lint-shell
lint-shell:
	@echo "==> shellcheck"
	@$(LIST_FILES) ':!*.md' | xargs -r grep -lE '^#!.*(bash|/sh)|^# shellcheck shell=' | xargs -r shellcheck -x

# Lanes in order of cost; each stops the run when it fails, in CI when it fails twice.
TEST_LANES := test-model test-cpp test-tsan test-python test-rdma test-stress test-faults test-fuzz test-go test-rules test-envtest test-render test-chart-upgrade e2e

.PHONY: test
test: deps ## All tests: the protocol's model, C++ (ASan+UBSan, TSan, fuzzers), Python, stress, faults between hosts, Go, a real API server, a real cluster
	@hack/lanes.sh $(TEST_LANES)

.PHONY: clean
clean: ## Remove what was built in the tree (caches outside stay)
	rm -rf bin dist dataplane/build e2e/out
