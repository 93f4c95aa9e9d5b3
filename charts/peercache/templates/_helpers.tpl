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

{{/* repository:tag or repository@digest; the argument is {root, image}. */}}
{{- define "peercache.image" -}}
{{- $tag := .image.tag | default .root.Chart.AppVersion -}}
{{- printf "%s%s%s" .image.repository (ternary "@" ":" (hasPrefix "sha256:" $tag)) $tag -}}
{{- end }}
