// Tenants: what each uses of a node, and what was refused to it.
#include "node/report/metric_series.h"

namespace peercache {

MetricSection TenantMetrics() {
  return {
      "Tenants",
      "In Kubernetes a tenant is a namespace. A node has 64 at most, and the shared one, of "
      "engines "
      "that come through a socket without a tenant: `(shared)`. With the option `tenant-metrics` "
      "`off`, the default, there is one series for all: `(all)`. See [security](security.md).",
      {
          {"peercache_tenant_engines",
           kGauge,
           "Engines of the tenant that are attached.",
           {"tenant"},
           {EachTenant([](const TenantInfo& t) { return double(t.sessions); })},
           "Whose engines does the node serve?",
           "sum by (tenant) (peercache_tenant_engines)"},
          {"peercache_tenant_shared_bytes",
           kGauge,
           "Memory that the tenant's engines share with this node.",
           {"tenant"},
           {EachTenant([](const TenantInfo& t) { return double(t.shared_bytes); })}},
          {"peercache_tenant_pool_bytes",
           kGauge,
           "Memory of the pool that the tenant's pages take, replicas left out.",
           {"tenant"},
           {EachTenant([](const TenantInfo& t) { return double(t.pool_bytes); })},
           "Who fills the pools?",
           "sum by (tenant) (peercache_tenant_pool_bytes)"},
          {"peercache_tenant_refused_total",
           kCounter,
           "What was refused to the tenant: engines beyond what it may have attached (engines), "
           "engines of one process beyond half of that (process), memory beyond max-tenant-memory "
           "(memory), clears that came too fast (clears).",
           {"tenant", "reason"},
           {EachTenant([](const TenantInfo& t) { return double(t.refused_sessions); }, {"engines"}),
            EachTenant([](const TenantInfo& t) { return double(t.refused_process); }, {"process"}),
            EachTenant([](const TenantInfo& t) { return double(t.refused_memory); }, {"memory"}),
            EachTenant([](const TenantInfo& t) { return double(t.refused_clears); }, {"clears"})},
           "Which tenants want more than they may have?",
           "sum by (tenant, reason) (increase(peercache_tenant_refused_total[15m])) > 0"},
          {"peercache_tenants_unserved",
           kGauge,
           "Folders of tenants-dir in which the node could make no socket; its log has the reason.",
           {},
           {Of([](const Scrape& s) { return s.unserved_tenants; })},
           "Are there namespaces whose engines cannot attach?",
           "peercache_tenants_unserved > 0"},
      }};
}

}  // namespace peercache
