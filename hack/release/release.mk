# Publishing a release. Included by the root Makefile. .github/workflows/release.yml runs these on a tag.

ACTIONLINT_VERSION := v1.7.12
ACTIONLINT_DIGEST := h1:vQ4GeJN86C0QH+gTUQcs8McmK62OLT3kmakPMtEWYnY=
ACTIONLINT := $(PEERCACHE_CACHE)/tools/actionlint-$(ACTIONLINT_VERSION)/actionlint

$(ACTIONLINT):
	@echo "==> building actionlint $(ACTIONLINT_VERSION) (once, seconds)"
	@CGO_ENABLED=0 GOFLAGS='-buildvcs=false -trimpath' hack/dev/go-install.sh \
		github.com/rhysd/actionlint $(ACTIONLINT_VERSION) $(ACTIONLINT_DIGEST) cmd/actionlint $(@D)

.PHONY: lint-workflows
lint-workflows: $(ACTIONLINT) ## GitHub's workflows: actionlint, with shellcheck for what they run
	@echo "==> actionlint"
	@$(ACTIONLINT) -color

.PHONY: push push-kit sign release-check release-notes

push: ## Push images, chart and OLM bundle: REGISTRY, TAG, PUSH_KIT
	@hack/release/push.sh "$(REGISTRY)" $(TAG)

push-kit: ## dist/push-kit.tar: what push needs, for where nothing is built
	@hack/release/kit.sh

sign: ## Sign what was pushed, and attest SBOMs and provenance; COSIGN_KEY
	@hack/release/sign.sh

release-check: ## Fail when TAG is not the version that the tree has everywhere
	@hack/release/check.sh "$(TAG)"

release-notes: ## What CHANGELOG.md says of VERSION
	@hack/release/notes.sh

.PHONY: test-push
test-push: ## Push to a real registry, and install from it by digest
	@echo "==> pushing to a registry"
	@push=$$(hack/lab/cluster/build.sh --push) && registry=$$(hack/lab/cluster/build.sh --registry) && \
		PATH="$$push:$$registry:$$PATH" $(GO_BUILD_ENV) $(call go_test,-tags push -count=1,./internal/release -run Push)

.PHONY: bare-metal
bare-metal: ## dist/bare-metal: systemd unit, compose file, alerts and dashboards
	@hack/release/bare-metal.sh

.PHONY: wheels wheels-upload
wheels: ## dist/wheels: the Python package for each CPython, and its sources
	@hack/release/images/build-images.sh client
	@hack/release/wheels.sh

wheels-upload: ## Upload them to PyPI
	@hack/release/wheels.sh upload

lint-python: lint-wheels

.PHONY: lint-wheels
lint-wheels:
	@cd dataplane && ruff check --config pyproject.toml --target-version py311 ../hack/release/wheels && \
		ruff format --check --config pyproject.toml ../hack/release/wheels && \
		MYPYPATH=../hack/release/wheels mypy --python-version 3.11 $(addprefix ../hack/release/wheels/,__main__.py image.py wheel.py)
