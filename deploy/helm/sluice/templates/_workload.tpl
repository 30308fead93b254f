{{/*
Everything of one component: service account, configuration, service, disruption budget, Deployment or StatefulSet.
Takes (dict "root" $ "component" "segment-store" "values" $.Values.segmentStore).
*/}}
{{- define "sluice.component" -}}
{{- $root := .root -}}
{{- $values := .values -}}
{{- $name := printf "%s-%s" (include "sluice.fullname" $root) .component -}}
{{- $labels := include "sluice.labels" . -}}
{{- if $values.serviceAccount.create }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "sluice.serviceAccount" . }}
  labels: {{- $labels | nindent 4 }}
  {{- with $values.serviceAccount.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $name }}
  labels: {{- $labels | nindent 4 }}
data:
  config.json: | {{- include "sluice.config" . | nindent 4 }}
---
# Names every pod: for metrics, and for who wants one pod and no other.
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  labels: {{- $labels | nindent 4 }}
  {{- with $values.service.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: ClusterIP
  clusterIP: None
  selector: {{- include "sluice.selector" . | nindent 4 }}
  ports:
    {{- range $port, $number := include "sluice.ports" .component | fromJson }}
    - { name: {{ $port }}, port: {{ $number }}, targetPort: {{ $port }}, protocol: TCP }
    {{- end }}
    - { name: metrics, port: 9600, targetPort: metrics, protocol: TCP }
{{- if and $values.podDisruptionBudget.enabled (gt (int $values.replicas) 1) }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  labels: {{- $labels | nindent 4 }}
spec:
  maxUnavailable: {{ $values.podDisruptionBudget.maxUnavailable }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{- include "sluice.selector" . | nindent 6 }}
{{- end }}
---
apiVersion: apps/v1
kind: {{ ternary "StatefulSet" "Deployment" (eq .component "segment-store") }}
metadata:
  name: {{ $name }}
  labels: {{- $labels | nindent 4 }}
spec:
  replicas: {{ $values.replicas }}
  selector:
    matchLabels: {{- include "sluice.selector" . | nindent 6 }}
  {{- if eq .component "segment-store" }}
  serviceName: {{ $name }}
  # Storage nodes wait for each other in nothing but an update, where the next goes once the one before serves again.
  podManagementPolicy: Parallel
  updateStrategy: { type: RollingUpdate }
  persistentVolumeClaimRetentionPolicy: { whenDeleted: Retain, whenScaled: Retain }
  volumeClaimTemplates:
    - metadata:
        name: journal
        labels: {{- include "sluice.selector" . | nindent 10 }}
      spec:
        accessModes: [ReadWriteOnce]
        {{- with $values.storage.storageClass }}
        storageClassName: {{ . }}
        {{- end }}
        resources: { requests: { storage: {{ $values.storage.size }} } }
  {{- else }}
  # The new pod serves before the old one goes.
  strategy: { type: RollingUpdate, rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } }
  {{- end }}
  template:
    metadata:
      labels:
        {{- include "sluice.podLabels" . | nindent 8 }}
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        # A changed configuration is a changed pod.
        sluice/config: {{ include "sluice.config" . | sha256sum }}
        {{- with $values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec: {{- include "sluice.pod" . | nindent 6 }}
{{- end -}}

{{- define "sluice.pod" -}}
{{- $root := .root -}}
{{- $values := .values -}}
{{- $name := printf "%s-%s" (include "sluice.fullname" $root) .component -}}
{{- $ports := include "sluice.ports" .component | fromJson -}}
serviceAccountName: {{ include "sluice.serviceAccount" . }}
automountServiceAccountToken: false
# Kubernetes would name every service of the namespace in the environment, and a service refuses names of SLUICE_ that it does not know.
enableServiceLinks: false
# What preStop and the drain may take together, and what is left to end.
terminationGracePeriodSeconds: {{ add $values.drain.timeoutSeconds $values.drain.preStopSeconds 15 }}
securityContext: {{- include "sluice.podSecurity" $root | nindent 2 }}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets: {{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $values.topologySpread.enabled }}
topologySpreadConstraints:
  {{- range $key, $rule := dict "topology.kubernetes.io/zone" $values.topologySpread.zones "kubernetes.io/hostname" $values.topologySpread.nodes }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: {{ $rule }}
    nodeTaintsPolicy: Honor
    labelSelector:
      matchLabels: {{- include "sluice.selector" $ | nindent 8 }}
    {{- if ne $.component "segment-store" }}
    matchLabelKeys: [pod-template-hash]
    {{- end }}
  {{- end }}
{{- end }}
containers:
  - name: {{ .component }}
    image: {{ include "sluice.image" (dict "root" $root "image" $values.image) | quote }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    securityContext: {{- include "sluice.containerSecurity" $root | nindent 6 }}
    env:
      - { name: SLUICE_CONFIG, value: /etc/sluice/config/config.json }
      - { name: POD_IP, valueFrom: { fieldRef: { fieldPath: status.podIP } } }
      - { name: SLUICE_ID, valueFrom: { fieldRef: { fieldPath: metadata.name } } }
      - { name: SLUICE_HOST, valueFrom: { fieldRef: { fieldPath: spec.nodeName } } }
      {{- if $root.Values.zone }}
      - { name: SLUICE_ZONE, value: {{ $root.Values.zone | quote }} }
      {{- else }}
      - { name: SLUICE_ZONE, valueFrom: { fieldRef: { fieldPath: "metadata.labels['topology.kubernetes.io/zone']" } } }
      {{- end }}
      {{- range $port, $number := merge (dict "health" 9600) $ports }}
      - { name: SLUICE_LISTENER_{{ upper $port }}_ADVERTISED, value: "$(POD_IP):{{ $number }}" }
      {{- end }}
      {{- with $values.extraEnv }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    ports:
      {{- range $port, $number := $ports }}
      - { name: {{ $port }}, containerPort: {{ $number }}, protocol: TCP }
      {{- end }}
      {{- if and (eq .component "proxy") $values.kafkaOutside.advertised }}
      - { name: kafka-outside, containerPort: 9094, protocol: TCP }
      {{- end }}
      - { name: metrics, containerPort: 9600, protocol: TCP }
    startupProbe:
      httpGet: { path: /startupz, port: metrics }
      {{- toYaml $values.probes.startup | nindent 6 }}
    readinessProbe:
      httpGet: { path: /readyz, port: metrics }
      {{- toYaml $values.probes.readiness | nindent 6 }}
    livenessProbe:
      httpGet: { path: /livez, port: metrics }
      {{- toYaml $values.probes.liveness | nindent 6 }}
    lifecycle:
      # Serves on until the endpoints are known to be without it everywhere; then SIGTERM, which drains.
      preStop: { sleep: { seconds: {{ $values.drain.preStopSeconds }} } }
    resources: {{- toYaml $values.resources | nindent 6 }}
    volumeMounts:
      - { name: config, mountPath: /etc/sluice/config, readOnly: true }
      {{- if include "sluice.objectStoreSecret" $root }}
      - { name: object-store, mountPath: /etc/sluice/object-store, readOnly: true }
      {{- end }}
      {{- if $root.Values.clusterSecret.existingSecret }}
      - { name: cluster-secret, mountPath: /etc/sluice/cluster, readOnly: true }
      {{- end }}
      {{- if eq .component "segment-store" }}
      - { name: journal, mountPath: /var/lib/sluice }
      {{- end }}
volumes:
  - { name: config, configMap: { name: {{ $name }} } }
  {{- with include "sluice.objectStoreSecret" $root }}
  - { name: object-store, secret: { secretName: {{ . }}, defaultMode: 0440 } }
  {{- end }}
  {{- with $root.Values.clusterSecret.existingSecret }}
  - { name: cluster-secret, secret: { secretName: {{ . }}, defaultMode: 0440 } }
  {{- end }}
{{- end -}}
