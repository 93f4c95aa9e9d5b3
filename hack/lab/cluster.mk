# Targets around the development cluster and the programs it is made of. Included by the root Makefile.

PEERCACHE_CACHE ?= $(HOME)/.cache/peercache
export PEERCACHE_CACHE
export PATH := $(PEERCACHE_CACHE)/bin:$(PATH)

.PHONY: deps cluster-tools cluster-up cluster-down cluster-status

deps: ## Install packages, Go and linters (Debian or Ubuntu)
	hack/dev/deps.sh

cluster-tools: ## Build Kubernetes and its companions (cached)
	hack/lab/cluster/build.sh

cluster-up: ## Start a three-node cluster (PROVIDER=local|kind)
	hack/lab/cluster/cluster up

cluster-down: ## Remove it without a trace
	hack/lab/cluster/cluster down

cluster-status: ## What runs
	hack/lab/cluster/cluster status
