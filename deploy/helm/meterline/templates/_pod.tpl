{{- /* Parts of every pod. They take a dict: root, role (name of the command), values of the role. */ -}}

{{- define "meterline.environment" -}}
- {name: METERLINE_HOST, value: "0.0.0.0"}
- {name: METERLINE_PORT, value: "8888"}
- {name: METERLINE_METRICS_PORT, value: "9464"}
- {name: METERLINE_DATA_DIR, value: /data}
{{- if eq .role "aggregate" }}
- name: METERLINE_INSTANCE_ID
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- end }}
{{- if hasKey .values "drainSeconds" }}
- {name: METERLINE_DRAIN_S, value: {{ .values.drainSeconds | quote }}}
{{- end }}
{{- if and (has .role (list "ingest" "control")) (not (hasKey .root.Values.settings "limit_shares")) }}
{{- /* A plan is shared by all pods that the role may have: together they never grant more. */}}
{{- $scaled := dig "autoscaling" "enabled" false .values }}
- {name: METERLINE_LIMIT_SHARES, value: {{ ternary (dig "autoscaling" "maxReplicas" 0 .values) .values.replicas $scaled | int | quote }}}
{{- end }}
{{- range $name := keys .root.Values.settings | sortAlpha }}
{{- $value := index $.root.Values.settings $name }}
- name: METERLINE_{{ upper $name }}
  value: {{ kindIs "string" $value | ternary $value (toJson $value) | quote }}
{{- end }}
{{- range $name := keys .root.Values.secretSettings | sortAlpha }}
{{- $secret := index $.root.Values.secretSettings $name }}
- name: METERLINE_{{ upper $name }}
  valueFrom:
    secretKeyRef: {name: {{ $secret.name }}, key: {{ $secret.key }}}
{{- end }}
{{- with .root.Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "meterline.podMetadata" -}}
labels:
  {{- include "meterline.labels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .role }}
  {{- with .root.Values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .root.Values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "meterline.container" -}}
- name: meterline
  image: {{ include "meterline.image" .root }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  args: [{{ .role }}]
  env:
    {{- include "meterline.environment" . | nindent 4 }}
  resources:
    {{- toYaml .values.resources | nindent 4 }}
  securityContext:
    {{- toYaml .root.Values.securityContext | nindent 4 }}
  volumeMounts:
    - {name: data, mountPath: /data}
    - {name: temporary, mountPath: /tmp}
    {{- with .root.Values.volumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{- define "meterline.probes" -}}
ports:
  - {name: http, containerPort: 8888}
  - {name: metrics, containerPort: 9464}
# A role listens once its stores answer; it ends by itself after start_timeout_s.
startupProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: {{ add 12 (div (int (default 300 .root.Values.settings.start_timeout_s)) 5) }}
livenessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- end -}}

{{- define "meterline.podSpec" -}}
serviceAccountName: {{ include (ternary "meterline.migrateAccount" "meterline.serviceAccount" (eq .role "migrate")) .root }}
automountServiceAccountToken: false
# Variables of services would look like settings: METERLINE_PORT is one.
enableServiceLinks: false
securityContext:
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{- define "meterline.spread" -}}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "meterline.selector" $.root | nindent 8 }}
        app.kubernetes.io/component: {{ $.role }}
  {{- end }}
{{- end -}}

{{- define "meterline.temporary" -}}
- name: temporary
  emptyDir: {sizeLimit: {{ .root.Values.temporary.sizeLimit }}}
{{- with .root.Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
