# How the lanes of Go's tests call it. Included by the makefiles that have some.

GO_MODULE := github.com/peercache/peercache
# Ends what hangs. Beside e2e these lanes have the least priority, and may wait for most of it.
GO_TEST_TIMEOUT := -timeout 60m
# $(call go_test,FLAGS,PACKAGES), or the one test that ONLY names, as PACKAGE.TestName.
go_test = go $(if $(ONLY),-C $(patsubst $(GO_MODULE)/%,%,$(basename $(ONLY))) test $(GO_TEST_TIMEOUT) $(1) \
	-run '^$(patsubst .%,%,$(suffix $(ONLY)))$$' .,test $(GO_TEST_TIMEOUT) $(1) $(2))

# Which programs hack/lab/cluster/build.sh makes and names the folder of: those of KUBERNETES, such as 1.31; without it, the cluster's.
KUBERNETES_TOOLS = $(if $(KUBERNETES),--api,--bin-dir)
