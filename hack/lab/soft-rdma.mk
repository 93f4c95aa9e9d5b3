# Targets of real RDMA verbs on machines that have no RDMA device: docs/dev/rdma.md. Included by the root Makefile.

.PHONY: soft-rdma-kernel
soft-rdma-kernel: ## Build the guest's kernel of test-rdma (cached)
	@hack/lab/soft-rdma/kernel/build.sh

# Sanitizers need more address space than a guest has.
.PHONY: build-fabric-tests
build-fabric-tests: build-dataplane
	@$(call configure_and_build,release,build/release --target fabric_tests,-DPEERCACHE_FABRIC_TESTS=ON)

.PHONY: test-rdma
test-rdma: build-fabric-tests ## RDMA verbs over soft-RoCE in a guest (root)
	@dataplane/python/test.sh --version >/dev/null  # installs pytest, which a guest cannot: it has no network
	@echo "==> RDMA over soft-RoCE (2 minutes; its kernel is built once, a few minutes more)"
	@SHORT=$(call short,1) hack/lab/soft-rdma/test.sh $(ONLY)

.PHONY: test-rdma-full
test-rdma-full: build-dataplane ## The same under a stock Debian kernel: NUMA, two hosts (root)
	@echo "==> RDMA over soft-RoCE, emulated machines (several minutes)"
	@hack/lab/soft-rdma/test.sh --full

.PHONY: test-rdma-kubernetes
test-rdma-kubernetes: ## RoCE under a real Kubernetes in a guest with two ports (root)
	@echo "==> RoCE under Kubernetes, an emulated machine (two minutes on two idle processors)"
	@hack/lab/soft-rdma/qemu/kubernetes.sh

# RATIO_CONTENDERS=ib_read_bw, against itself, checks the method; see hack/lab/soft-rdma/qemu/ratio.sh.
RATIO_CONTENDERS ?= peercache peercache-get

.PHONY: ratio-rdma
ratio-rdma: build-dataplane ## Instructions of READs and GETs beside ib_read_bw, emulated (root)
	@echo "==> instruction costs in virtual time, and wall clock (several minutes)"
	@for contender in $(RATIO_CONTENDERS); do hack/lab/soft-rdma/qemu/ratio.sh $$contender || exit; done
	@hack/lab/soft-rdma/qemu/ratio.sh --wall peercache
