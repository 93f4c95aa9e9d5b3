# Recipes of the operator. Included by the root Makefile; also usable by itself:
#   make -f operator/operator.mk generate
# Generated files are committed, so only who changes api/ or an RBAC marker needs these tools.

PEERCACHE_CACHE ?= $(HOME)/.cache/peercache
# The flags of hack/lab/cluster/toolset.sh: Kubernetes' packages are then compiled once for all.
GO_FLAGS := -buildvcs=false -trimpath -gcflags=all=-dwarf=false
GO_BUILD_ENV := CGO_ENABLED=0 GOFLAGS='-mod=readonly $(GO_FLAGS)'

include hack/dev/go.mk

# Versions and digests of the modules, as go.sum has them.
CONTROLLER_GEN_VERSION := v0.20.1
CONTROLLER_GEN_DIGEST := h1:gkfMt9YodI0K85oT8rVi80NTXO/kDmabKR5Ajn5GYxs=
CONTROLLER_GEN := $(PEERCACHE_CACHE)/tools/controller-gen-$(CONTROLLER_GEN_VERSION)/controller-gen
GOLANGCI_LINT_VERSION := v2.15.0
GOLANGCI_LINT_DIGEST := h1:w94zf8HAYI7hm3164kwKsvZRuqXvY+YxeFoTbu1OLg8=
GOLANGCI_LINT := $(PEERCACHE_CACHE)/tools/golangci-lint-$(GOLANGCI_LINT_VERSION)/golangci-lint

$(CONTROLLER_GEN):
	@echo "==> building controller-gen $(CONTROLLER_GEN_VERSION) (once, about a minute)"
	@CGO_ENABLED=0 GOFLAGS='$(GO_FLAGS)' hack/dev/go-install.sh \
		sigs.k8s.io/controller-tools $(CONTROLLER_GEN_VERSION) $(CONTROLLER_GEN_DIGEST) cmd/controller-gen $(@D)

$(GOLANGCI_LINT):
	@echo "==> building golangci-lint $(GOLANGCI_LINT_VERSION) (once, several minutes)"
	@CGO_ENABLED=0 GOFLAGS='$(GO_FLAGS)' hack/dev/go-install.sh \
		github.com/golangci/golangci-lint/v2 $(GOLANGCI_LINT_VERSION) $(GOLANGCI_LINT_DIGEST) cmd/golangci-lint $(@D)

.PHONY: generate
generate: $(CONTROLLER_GEN) ## Write deep copies, the CRD, its reference, RBAC, dashboards, alerts
	@echo "==> generating api/v1alpha1, config/crd, config/rbac, config/grafana and config/bare-metal"
	@$(CONTROLLER_GEN) object:headerFile=hack/dev/boilerplate.go.txt paths=./api/...
	@$(CONTROLLER_GEN) crd:maxDescLen=2000 paths=./api/... output:crd:dir=config/crd
	@$(CONTROLLER_GEN) rbac:roleName=peercache-operator,fileName=role.yaml paths=./operator/... \
		output:rbac:dir=config/rbac
	@$(MAKE) --no-print-directory -f operator/operator.mk crd-reference monitoring-files

.PHONY: monitoring-files
monitoring-files: ## Write config/grafana, and the alerts of config/bare-metal
	@$(GO_BUILD_ENV) go test ./operator/dashboards -run TestFilesAreWritten -update
	@$(GO_BUILD_ENV) go test ./operator/plan -run TestBareMetalRules -update

.PHONY: crd-reference
crd-reference: ## Write docs/reference/crd.md from config/crd
	@$(GO_BUILD_ENV) go test ./config/crd -run TestReference -update

# In a copy: other lanes read these files meanwhile.
.PHONY: generate-check
generate-check: $(CONTROLLER_GEN) ## Fail when generated files are not what the sources say
	@copy=$$(mktemp -d) && trap "rm -rf $$copy" EXIT && \
		git ls-files -z --cached --others --exclude-standard | \
			tar -c --null -T - --ignore-failed-read 2>/dev/null | tar -x -C $$copy && \
		$(MAKE) --no-print-directory -C $$copy -f operator/operator.mk generate && \
		for folder in api config/crd config/rbac config/grafana config/bare-metal docs/reference; do \
			diff -ru $$folder $$copy/$$folder || \
				{ echo "generated files are out of date: commit what 'make generate' writes"; exit 1; }; \
		done

.PHONY: lint-go
lint-go: $(GOLANGCI_LINT) ## golangci-lint over every Go package and every tag
	@echo "==> golangci-lint"
	@hack/lab/cluster/check-versions.sh
	@$(GO_BUILD_ENV) $(GOLANGCI_LINT) run --build-tags envtest,render,e2e,promtool ./...
	@cd hack/release/olm && $(GO_BUILD_ENV) $(GOLANGCI_LINT) run ./...
	@cd hack/lab/recipes && $(GO_BUILD_ENV) $(GOLANGCI_LINT) run --build-tags envtest ./...
	@cd hack/lab/cluster/tools/rdma-shared-plugin && $(GO_BUILD_ENV) $(GOLANGCI_LINT) run ./...

.PHONY: build-operator
build-operator: ## bin/peercache-operator
	@echo "==> building bin/peercache-operator"
	@$(GO_BUILD_ENV) go build -ldflags "-X main.version=$$(cat VERSION)" -o bin/peercache-operator ./operator

.PHONY: test-go
test-go: ## Go unit tests
	@echo "==> Go unit tests"
ifdef ONLY
	@$(GO_BUILD_ENV) $(call go_test)
else
	@status=0; \
		$(GO_BUILD_ENV) go test ./api/... ./config/... ./internal/... ./operator/... ./kubectl/... ./charts/... || status=1; \
		for module in hack/release/olm hack/lab/cluster/tools/rdma-shared-plugin; do \
			$(GO_BUILD_ENV) go -C $$module test ./... || status=1; \
		done; exit $$status
endif

test-fuzz: test-fuzz-inject

.PHONY: test-fuzz-inject
test-fuzz-inject: ## Fuzz injection for 10 s (FULL=1: 30)
	@echo "==> fuzzing injection"
	@$(GO_BUILD_ENV) operator/inject/fuzz.sh $(call short,10,30)

.PHONY: test-rules
test-rules: ## Alerts, recording rules and dashboards, with promtool
	@echo "==> Prometheus rules and dashboards"
	@$(GO_BUILD_ENV) $(call go_test,-tags promtool,\
		./operator ./operator/plan ./internal/promtool -run 'Rules|Dashboards|Exported|Fill')

.PHONY: test-envtest
test-envtest: ## Go tests on a real kube-apiserver; KUBEBUILDER_ASSETS
	@echo "==> Go tests on a real kube-apiserver"
	@assets="$${KUBEBUILDER_ASSETS:-$$(hack/lab/cluster/build.sh $(KUBERNETES_TOOLS))}" && status=0 && \
		export KUBEBUILDER_ASSETS="$$assets" $(GO_BUILD_ENV) && \
		{ $(call go_test,-tags envtest,./api/... ./internal/apiserver ./operator/... ./kubectl/...) || status=1; } && \
		{ $(if $(ONLY),true,go -C hack/lab/recipes test $(GO_TEST_TIMEOUT) -tags envtest ./...) || status=1; } && exit $$status

# Where `make scale` leaves its result, its chart and the operator's logs.
SCALE_OUT ?= operator/build/scale

.PHONY: scale
scale: build-operator ## The operator at 1,000 nodes and 5,000 SGLang pods; SCALE_ARGS
	@echo "==> scale: the operator with simulated machines"
	@mkdir -p $(SCALE_OUT) && rm -f $(SCALE_OUT)/scale.json
	@$(GO_BUILD_ENV) go build -o bin/peercache-scale ./operator/scale
	@assets="$${KUBEBUILDER_ASSETS:-$$(hack/lab/cluster/build.sh --bin-dir)}" && status=0 && \
		{ KUBEBUILDER_ASSETS="$$assets" bin/peercache-scale --out $(SCALE_OUT) $(SCALE_ARGS) || status=$$?; } && \
		if [ -f $(SCALE_OUT)/scale.json ]; then /usr/bin/python3 operator/scale/plot.py $(SCALE_OUT)/scale.json $(SCALE_OUT)/scale.png; fi && \
		exit $$status

lint-python: lint-scale

.PHONY: lint-scale
lint-scale:
	@cd dataplane && ruff check --config pyproject.toml ../operator/scale && \
		ruff format --check --config pyproject.toml ../operator/scale && mypy ../operator/scale/plot.py
