# The bundle for the Operator Lifecycle Manager. Included by the root Makefile.

.PHONY: olm-bundle
olm-bundle: ## dist/olm: the bundle for the Operator Lifecycle Manager
	@cd hack/release/olm && CGO_ENABLED=0 go run . ../../.. ../../../dist/olm
	@echo "==> dist/olm; its image: buildah build -f dist/olm/bundle.Dockerfile dist/olm"
