# Recipes of the Helm chart and of the kustomize bases. Included by the root Makefile; also usable by itself:
#   make -f charts/charts.mk test-render

GO_BUILD_ENV ?= CGO_ENABLED=0 GOFLAGS='-mod=readonly -buildvcs=false -trimpath'
include hack/dev/go.mk
# The folder with helm, kubectl (for `kubectl kustomize`), kube-apiserver and etcd.
TOOLS_BIN = $$(hack/lab/cluster/build.sh $(KUBERNETES_TOOLS))

.PHONY: chart-files
chart-files: ## Copy the CRD, RBAC rules, alerts and dashboards into the chart
	@echo "==> copying config/crd, config/rbac/role.yaml, config/rights, config/prometheus/operator-rules.yaml and config/grafana into charts/peercache/files"
	@install -m 0644 -D -t charts/peercache/files/prometheus config/prometheus/operator-rules.yaml
	@install -m 0644 -D -t charts/peercache/files/grafana config/grafana/*.json
	@install -m 0644 -D -t charts/peercache/files/crd config/crd/peercache.io_*.yaml
	@install -m 0644 -D -t charts/peercache/files/rbac config/rbac/role.yaml
	@for role in config/rights/*/role.yaml; do \
		install -m 0644 -D "$$role" "charts/peercache/files/rights/$$(basename "$$(dirname "$$role")").yaml"; done

.PHONY: chart-readme
chart-readme: ## Write the table of values in charts/peercache/README.md
	@$(GO_BUILD_ENV) go test ./charts -run 'TestReadme' -update

.PHONY: test-render
test-render: ## What Helm and kustomize render, compared
	@echo "==> Helm chart and kustomize bases"
	@bin=$(TOOLS_BIN) && PATH="$$bin:$$PATH" $(GO_BUILD_ENV) $(call go_test,-tags render,./charts)

.PHONY: test-chart-upgrade
test-chart-upgrade: ## Helm installs and upgrades the chart on a real kube-apiserver
	@echo "==> Helm on a real kube-apiserver"
	@bin=$(TOOLS_BIN) && PATH="$$bin:$$PATH" KUBEBUILDER_ASSETS="$$bin" $(GO_BUILD_ENV) \
		$(call go_test,-tags 'render envtest',./charts)
