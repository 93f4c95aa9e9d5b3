# How the lanes of Go's tests call it. Included by the makefiles that have some.

GO_MODULE := github.com/peercache/peercache
# $(call go_test,FLAGS,PACKAGES), or the one test that ONLY names, as PACKAGE.TestName.
go_test = go $(if $(ONLY),-C $(patsubst $(GO_MODULE)/%,%,$(basename $(ONLY))) test $(1) \
	-run '^$(patsubst .%,%,$(suffix $(ONLY)))$$' .,test $(1) $(2))

# Which programs hack/lab/cluster/build.sh makes and names the folder of: those of KUBERNETES, such as 1.31; without it, the cluster's.
KUBERNETES_TOOLS = $(if $(KUBERNETES),--api,--bin-dir)
