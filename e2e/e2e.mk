# Recipes of what needs a cluster. Included by the root Makefile; also usable by itself:
#   make -f e2e/e2e.mk e2e

.PHONY: e2e
e2e: ## Specs on a real cluster of three nodes; FULL=1: all
	@echo "==> end-to-end tests"
	@e2e/run.sh $(call short,-ginkgo.label-filter='!full') $(E2E_ARGS)

.PHONY: test-families
test-families: ## The main job where pods have IPv6; FULL=1: also with IPv4 after it
	@echo "==> the main job on clusters of other families of addresses"
	@e2e/families.sh ipv6 $(call short,,dual6)

.PHONY: e2e-build
e2e-build: ## Kubernetes, images and suite for e2e (cached; half an hour cold)
	@echo "==> building what the end-to-end tests need"
	@e2e/build.sh
	@$(MAKE) --no-print-directory build-former  # for test-faults, while this lane runs beside others

.PHONY: demo
demo: ## A cluster; one engine reads another's pages (ENGINE=sglang, vllm)
	@hack/lab/demo.sh
