{{/*
A single-node server FOR TRIALS ONLY, with a volume and a service of its own.
Takes (dict "root" $ "component" "trial-etcd" "values" block "port" n "container" text).
*/}}
{{- define "sluice.trial" -}}
{{- $name := printf "%s-%s" (include "sluice.fullname" .root) .component -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  labels: {{- include "sluice.labels" . | nindent 4 }}
automountServiceAccountToken: false
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  labels: {{- include "sluice.labels" . | nindent 4 }}
  annotations: { sluice/trial: "one node, no copies: not for data that matters" }
spec:
  type: ClusterIP
  selector: {{- include "sluice.selector" . | nindent 4 }}
  ports:
    - { name: client, port: {{ .port }}, targetPort: client, protocol: TCP }
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ $name }}
  labels: {{- include "sluice.labels" . | nindent 4 }}
  annotations: { sluice/trial: "one node, no copies: not for data that matters" }
spec:
  replicas: 1
  serviceName: {{ $name }}
  selector:
    matchLabels: {{- include "sluice.selector" . | nindent 6 }}
  persistentVolumeClaimRetentionPolicy: { whenDeleted: Retain, whenScaled: Retain }
  volumeClaimTemplates:
    - metadata:
        name: data
        labels: {{- include "sluice.selector" . | nindent 10 }}
      spec:
        accessModes: [ReadWriteOnce]
        {{- with .values.storage.storageClass }}
        storageClassName: {{ . }}
        {{- end }}
        resources: { requests: { storage: {{ .values.storage.size }} } }
  template:
    metadata:
      labels: {{- include "sluice.podLabels" . | nindent 8 }}
    spec:
      serviceAccountName: {{ $name }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: 20
      securityContext: {{- include "sluice.podSecurity" .root | nindent 8 }}
      {{- with .root.Values.image.pullSecrets }}
      imagePullSecrets: {{- range . }}
        - name: {{ . }}
      {{- end }}
      {{- end }}
      {{- with .values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .component }}
          image: "{{ .values.image.repository }}:{{ .values.image.tag }}"
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          securityContext: {{- include "sluice.containerSecurity" .root | nindent 12 }}
          ports:
            - { name: client, containerPort: {{ .port }}, protocol: TCP }
          resources: {{- toYaml .values.resources | nindent 12 }}
          volumeMounts:
            - { name: data, mountPath: /var/lib/trial }
            {{- if .scratch }}
            - { name: scratch, mountPath: /tmp }
            {{- end }}
          {{- .container | nindent 10 }}
      {{- if .scratch }}
      volumes:
        - { name: scratch, emptyDir: { sizeLimit: 1Gi } }
      {{- end }}
{{- end -}}
