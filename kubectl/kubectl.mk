# Recipes of the kubectl plug-in. Included by the root Makefile; also usable by itself:
#   make -f kubectl/kubectl.mk build-kubectl

GO_BUILD_ENV ?= CGO_ENABLED=0 GOFLAGS='-mod=readonly -buildvcs=false -trimpath'

.PHONY: build-kubectl
build-kubectl: ## bin/kubectl-peercache: kubectl peercache where bin/ is on PATH
	@echo "==> building bin/kubectl-peercache"
	@$(GO_BUILD_ENV) go build -ldflags "-s -w -X main.version=$$(cat VERSION)" -o bin/kubectl-peercache ./kubectl/cmd/kubectl-peercache

.PHONY: krew
krew: ## dist/krew: archives of the plug-in, and the manifest for krew
	@$(GO_BUILD_ENV) kubectl/krew/build.sh

.PHONY: test-krew
test-krew: ## Archives of the plug-in for every platform against the manifest
	@$(GO_BUILD_ENV) go test ./internal/release -run Krew -count=1 -timeout 60m -every-platform
