# The bundle for the Operator Lifecycle Manager. Included by the root Makefile.

.PHONY: olm-bundle
olm-bundle: ## dist/olm: the bundle by which the Operator Lifecycle Manager installs the operator
	@cd hack/olm && CGO_ENABLED=0 go run . ../.. ../../dist/olm
	@echo "==> dist/olm; its image: buildah build -f dist/olm/bundle.Dockerfile dist/olm"
