{{/*
Names are fixed. The definition, the webhook configuration and its certificate exist once per Kubernetes cluster,
and the operator knows them by these names, so there can be one release only.
*/}}
{{- define "peercache.operator" -}}peercache-operator{{- end }}
{{- define "peercache.webhookService" -}}peercache-webhook{{- end }}
{{/* Where cert-manager leaves the certificate: not in peercache-webhook-cert, which is the operator's own affair. */}}
{{- define "peercache.webhookSecret" -}}peercache-webhook-tls{{- end }}
{{- define "peercache.webhookConfiguration" -}}peercache-inject{{- end }}

{{/* Not empty where cert-manager makes the webhook's certificate. Values kept from an older release may lack the key. */}}
{{- define "peercache.certManager" -}}
{{- if and .Values.webhook.enabled (.Values.webhook.certManager | default dict).enabled }}true{{ end }}
{{- end }}

{{/* Not empty where the operator may patch pods. Values kept from an older release may lack the key. */}}
{{- define "peercache.patchPods" -}}
{{- if ((.Values.rbac | default dict).pods | default (dict "enabled" true)).enabled }}true{{ end }}
{{- end }}

{{/* Not empty where the operator's metrics come by HTTPS. Values kept from an older release may lack the key. */}}
{{- define "peercache.metricsTLS" -}}
{{- if (.Values.metrics.tls | default dict).enabled }}
{{- if not .Values.webhook.enabled }}
{{- fail "metrics.tls.enabled=true needs the certificate of the webhook, which webhook.enabled=false turns off: leave one of them out" }}
{{- end }}true{{ end }}
{{- end }}

{{/* How a monitor reaches the operator's metrics. */}}
{{- define "peercache.metricsScheme" -}}
{{- if include "peercache.metricsTLS" . -}}
scheme: https
tlsConfig:
  serverName: {{ include "peercache.webhookService" . }}.{{ .Release.Namespace }}.svc
  ca:
    secret:
      name: {{ if include "peercache.certManager" . }}{{ include "peercache.webhookSecret" . }}{{ else }}peercache-webhook-cert{{ end }}
      key: ca.crt
{{- end }}
{{- end }}

{{/* Labels of every object; the argument is {root, component}, component may be empty. */}}
{{- define "peercache.labels" -}}
app.kubernetes.io/name: peercache
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_") }}
{{- end }}

{{/* What selects the operator's pods. It never changes, because a Deployment's selector cannot. */}}
{{- define "peercache.selector" -}}
app.kubernetes.io/name: peercache
app.kubernetes.io/component: operator
{{- end }}

{{/*
What keeps the proxies of service meshes out of a pod (operator/plan/mesh.go has the same for members). The API server calls
the webhook without a mesh's certificate.
*/}}
{{- define "peercache.outOfMeshesLabels" -}}
sidecar.istio.io/inject: "false"
istio.io/dataplane-mode: none
kuma.io/sidecar-injection: disabled
{{- end }}
{{- define "peercache.outOfMeshesAnnotations" -}}
linkerd.io/inject: disabled
{{- end }}

{{/* repository:tag or repository@digest; the argument is {root, image}. */}}
{{- define "peercache.image" -}}
{{- $tag := .image.tag | default .root.Chart.AppVersion -}}
{{- printf "%s%s%s" .image.repository (ternary "@" ":" (hasPrefix "sha256:" $tag)) $tag -}}
{{- end }}

{{/*
90 % of the operator's memory limit in bytes, for GOMEMLIMIT: the garbage collector then works harder before the kernel ends the
process. Empty without a limit, and where the limit is in a unit that only the API server can judge.
*/}}
{{- define "peercache.goMemoryLimit" -}}
{{- with ((.Values.resources | default dict).limits | default dict).memory -}}
{{- $units := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- $unit := toString . | regexFind "[A-Za-z]*$" -}}
{{- if hasKey $units $unit -}}
{{- mulf (toString . | trimSuffix $unit | float64) (get $units $unit) 0.9 | floor | int64 -}}
{{- end -}}
{{- end -}}
{{- end }}
