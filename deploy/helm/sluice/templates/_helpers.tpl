{{/* Short enough that the longest pod name, of a coordinator, is still a member's name: 63 characters. */}}
{{- define "sluice.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}{{ .Values.fullnameOverride | trunc 34 | trimSuffix "-" }}
{{- else if contains $name .Release.Name -}}{{ .Release.Name | trunc 34 | trimSuffix "-" }}
{{- else -}}{{ printf "%s-%s" .Release.Name $name | trunc 34 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{/* What chooses the pods of a component: never changes within a release. Takes (dict "root" $ "component" name). */}}
{{- define "sluice.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "sluice.labels" -}}
{{ include "sluice.podLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}
{{/* Of a pod: without the chart's version, so that a new chart alone restarts nothing. */}}
{{- define "sluice.podLabels" -}}
{{ include "sluice.selector" . }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Takes (dict "root" $ "image" block). */}}
{{- define "sluice.image" -}}
{{- $tag := default (default .root.Chart.AppVersion .root.Values.image.tag) .image.tag -}}
{{- with .root.Values.image.registry }}{{ . }}/{{ end }}{{ .image.repository }}:{{ $tag }}
{{- end -}}

{{- define "sluice.serviceAccount" -}}
{{- $given := .values.serviceAccount.name -}}
{{- if .values.serviceAccount.create -}}{{ default (printf "%s-%s" (include "sluice.fullname" .root) .component) $given }}
{{- else -}}{{ default "default" $given }}{{- end -}}
{{- end -}}

{{/* Ports of a component beside health, by name. */}}
{{- define "sluice.ports" -}}
{{- $ports := dict
  "proxy" (dict "grpc" 7070 "kafka" 9092)
  "broker" (dict "link" 7071 "rpc" 7072)
  "segment-store" (dict "link" 7071 "rpc" 7072)
  "controller" (dict "rpc" 7072)
  "coordinator" (dict "rpc" 7072) -}}
{{ get $ports . | toJson }}
{{- end -}}

{{- define "sluice.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "sluice.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{- define "sluice.metadataEndpoints" -}}
{{- $own := list (printf "%s-trial-etcd:2379" (include "sluice.fullname" .)) -}}
{{- $endpoints := ternary $own .Values.metadata.endpoints .Values.trial.etcd.enabled -}}
{{- if not $endpoints -}}{{- fail "metadata.endpoints: name an etcd (host:port), or set trial.etcd.enabled for a trial" -}}{{- end -}}
{{ $endpoints | toJson }}
{{- end -}}

{{- define "sluice.objectStoreUrl" -}}
{{- if .Values.trial.s3.enabled -}}
s3://{{ .Values.trial.s3.bucket }}?endpoint=http://{{ include "sluice.fullname" . }}-trial-s3:7070&region=us-east-1
{{- else -}}{{ .Values.objectStore.url }}{{- end -}}
{{- end -}}
{{- define "sluice.objectStoreSecret" -}}
{{- if .Values.trial.s3.enabled -}}{{ include "sluice.fullname" . }}-trial-s3{{- else -}}{{ .Values.objectStore.existingSecret }}{{- end -}}
{{- end -}}

{{/* The configuration file of a component, as JSON: what the chart knows, and the component's own keys. */}}
{{- define "sluice.config" -}}
{{- $root := .root -}}
{{- $values := $root.Values -}}
{{- $config := dict
  "metadata.endpoints" (include "sluice.metadataEndpoints" $root | fromJsonArray)
  "metadata.prefix" $values.metadata.prefix
  "drain.timeout" (printf "%ds" (int .values.drain.timeoutSeconds))
  "listener.health.bind" ":9600"
  "listener.health.allowUnauthenticated" $values.allowUnauthenticated -}}
{{- range $name, $port := include "sluice.ports" .component | fromJson -}}
{{- $_ := set $config (printf "listener.%s.bind" $name) (printf ":%d" (int $port)) -}}
{{- $_ := set $config (printf "listener.%s.allowUnauthenticated" $name) $values.allowUnauthenticated -}}
{{- end -}}
{{- if and (eq .component "proxy") .values.kafkaOutside.advertised -}}
{{- $_ := set $config "listener.kafkaOutside.bind" ":9094" -}}
{{- $_ := set $config "listener.kafkaOutside.advertised" .values.kafkaOutside.advertised -}}
{{- $_ := set $config "listener.kafkaOutside.allowUnauthenticated" $values.allowUnauthenticated -}}
{{- end -}}
{{- with include "sluice.objectStoreUrl" $root -}}
{{- $_ := set $config "objectStore.url" . -}}
{{- $_ := set $config "objectStore.createBucket" (or $values.objectStore.createBucket $values.trial.s3.enabled) -}}
{{- end -}}
{{- if include "sluice.objectStoreSecret" $root -}}
{{- $_ := set $config "objectStore.accessKey" "file:/etc/sluice/object-store/accessKey" -}}
{{- $_ := set $config "objectStore.secretKey" "file:/etc/sluice/object-store/secretKey" -}}
{{- end -}}
{{- if $values.clusterSecret.existingSecret -}}
{{- $_ := set $config "cluster.secret" "file:/etc/sluice/cluster/secret" -}}
{{- end -}}
{{- if and $values.tracing.endpoint (has .component (list "proxy" "broker" "segment-store")) -}}
{{- $_ := set $config "tracing.endpoint" $values.tracing.endpoint -}}
{{- end -}}
{{- if eq .component "segment-store" -}}
{{- $_ := set $config "data.folder" "/var/lib/sluice/journal" -}}
{{- end -}}
{{ mustMergeOverwrite $config .values.config | toPrettyJson }}
{{- end -}}
