{{/* Prefix of all names: `diffusion-operator` for a release of that name. */}}
{{- define "diffusion.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Name of a component's objects. Call with (dict "root" $ "component" "gateway"). */}}
{{- define "diffusion.name" -}}
{{- $prefix := include "diffusion.fullname" .root -}}
{{- if eq .component "operator" }}{{ $prefix }}{{ else }}{{ printf "%s-%s" $prefix .component }}{{ end -}}
{{- end -}}

{{/* Labels that a Deployment selects its pods by: they can never change. */}}
{{- define "diffusion.selectorLabels" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Labels of every object. Nothing of the user's may replace a label that something is selected by. */}}
{{- define "diffusion.labels" -}}
{{- $labels := include "diffusion.selectorLabels" . | fromYaml -}}
{{- $_ := set $labels "app.kubernetes.io/part-of" "diffusion-operator" -}}
{{- $_ := set $labels "app.kubernetes.io/version" .root.Chart.AppVersion -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") -}}
{{- merge $labels .root.Values.commonLabels | toYaml -}}
{{- end -}}

{{/* Labels of a component's pods: without versions, so that only real changes replace them. */}}
{{- define "diffusion.podLabels" -}}
{{- $own := (get .root.Values .component).podLabels -}}
{{- merge (include "diffusion.selectorLabels" . | fromYaml) $own .root.Values.commonLabels | toYaml -}}
{{- end -}}

{{/* Image reference of a component: registry, repository and digest or tag. */}}
{{- define "diffusion.image" -}}
{{- $own := (get .root.Values .component).image -}}
{{- $advice := printf "image.registry is not set: no registry is assumed. Set it to where your images are, such as --set image.registry=registry.example.com/diffusion (or %s.image.registry for this one)" .component -}}
{{- $registry := required $advice (default .root.Values.image.registry $own.registry) -}}
{{- if $own.digest -}}
{{ $registry }}/{{ $own.repository }}@{{ $own.digest }}
{{- else -}}
{{ $registry }}/{{ $own.repository }}:{{ coalesce $own.tag .root.Values.image.tag .root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Base URL of the OpenAI API inside the cluster; it becomes status.url. */}}
{{- define "diffusion.gatewayUrl" -}}
{{- $port := int .Values.gateway.service.port -}}
http://{{ include "diffusion.name" (dict "root" . "component" "gateway") }}.{{ .Release.Namespace }}.svc{{ if ne $port 80 }}:{{ $port }}{{ end }}/v1
{{- end -}}

{{/* ServiceAccount of a component. */}}
{{- define "diffusion.serviceAccountName" -}}
{{- $account := (get .root.Values .component).serviceAccount -}}
{{- if $account.name }}{{ $account.name }}{{ else if $account.create }}{{ include "diffusion.name" . }}{{ else }}default{{ end -}}
{{- end -}}

{{/* Pod annotations of a component: the scrape annotations and the user's own, which win. */}}
{{- define "diffusion.podAnnotations" -}}
{{- $scrape := dict -}}
{{- if .root.Values.metrics.annotations -}}
{{- $scrape = dict "prometheus.io/scrape" "true" "prometheus.io/port" (toString .metricsPort) "prometheus.io/path" "/metrics" -}}
{{- end -}}
{{- merge (deepCopy (get .root.Values .component).podAnnotations) $scrape | toYaml -}}
{{- end -}}

{{/* Pod security of every pod of the chart: what the restricted Pod Security Standard asks for. */}}
{{- define "diffusion.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "diffusion.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Where the scheduler may put a component's pods. */}}
{{- define "diffusion.scheduling" -}}
{{- $own := get .root.Values .component -}}
{{- with $own.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $own.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A ServiceAccount; the token is mounted by the pod that needs it. */}}
{{- define "diffusion.serviceAccount" -}}
{{- $own := (get .root.Values .component).serviceAccount -}}
{{- if $own.create -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "diffusion.serviceAccountName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "diffusion.labels" . | nindent 4 }}
  {{- with $own.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}
{{- end -}}

{{/*
A role with its binding. Call with root, component, suffix (may be empty), rules (YAML text) and namespace;
without namespace it is a ClusterRole.
*/}}
{{- define "diffusion.role" -}}
{{- $scope := ternary "Role" "ClusterRole" (ne .namespace "") -}}
{{- $name := include "diffusion.name" . -}}
{{- if .suffix }}{{ $name = printf "%s-%s" $name .suffix }}{{ end -}}
{{- /* Names of ClusterRoles are shared by the whole cluster. */ -}}
{{- if eq $scope "ClusterRole" }}{{ $name = printf "%s:%s" .root.Release.Namespace $name }}{{ end -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $scope }}
metadata:
  name: {{ $name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "diffusion.labels" . | nindent 4 }}
rules:
  {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $scope }}Binding
metadata:
  name: {{ $name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "diffusion.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $scope }}
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "diffusion.serviceAccountName" . }}
    namespace: {{ .root.Release.Namespace }}
{{- end -}}
