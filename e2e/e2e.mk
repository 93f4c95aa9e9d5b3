# Recipes of what needs a cluster. Included by the root Makefile; also usable by itself:
#   make -f e2e/e2e.mk e2e

.PHONY: e2e
e2e: ## End-to-end tests on a real cluster of three nodes, which stays up: a spec for each feature (FULL=1: all); KUBERNETES=1.31: of that version
	@echo "==> end-to-end tests"
	@e2e/run.sh $(call short,-ginkgo.label-filter='!full') $(E2E_ARGS)

.PHONY: e2e-build
e2e-build: ## What the end-to-end tests need: Kubernetes, the images, the suite (cached; half an hour when cold)
	@echo "==> building what the end-to-end tests need"
	@e2e/build.sh
	@$(MAKE) --no-print-directory build-former  # for test-faults, while this lane runs beside others

.PHONY: demo
demo: ## From nothing to a running cluster; pages of one SGLang pod read by another
	@hack/demo.sh
