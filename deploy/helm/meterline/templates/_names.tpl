{{- define "meterline.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "meterline.fullname" -}}
{{- $name := include "meterline.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "meterline.selector" -}}
app.kubernetes.io/name: {{ include "meterline.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "meterline.labels" -}}
{{ include "meterline.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "meterline.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "meterline.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* The migration comes before an account that the chart creates. */ -}}
{{- define "meterline.migrateAccount" -}}
{{- if .Values.migrate.serviceAccount -}}
{{- .Values.migrate.serviceAccount -}}
{{- else -}}
{{- ternary "default" (default "default" .Values.serviceAccount.name) .Values.serviceAccount.create -}}
{{- end -}}
{{- end -}}

{{- define "meterline.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- /* The settings that each process needs, from one place or the other; words for what is missing. */ -}}
{{- define "meterline.checked" -}}
{{- range $name := list "log_url" "usage_url" "control_url" "secret_key" -}}
{{- if not (or (hasKey $.Values.settings $name) (hasKey $.Values.secretSettings $name)) -}}
{{- fail (printf "%s is missing: set secretSettings.%s to the name and key of a secret that exists%s" $name $name (ternary "" (printf ", or settings.%s" $name) (eq $name "secret_key"))) -}}
{{- end -}}
{{- end -}}
{{- range $name := keys .Values.secretSettings | sortAlpha -}}
{{- if hasKey $.Values.settings $name -}}
{{- fail (printf "%s is both in settings and in secretSettings: remove one of them" $name) -}}
{{- end -}}
{{- end -}}
{{- if not (or (hasKey .Values.secretSettings "access_mode") (eq (default "none" .Values.settings.access_mode) "keys") .Values.settings.public_without_keys (hasKey .Values.secretSettings "public_without_keys")) -}}
{{- fail "settings.access_mode is none: whoever reaches a pod could do everything, so no process would start. Set settings.access_mode to keys. If a proxy in front authenticates requests, set settings.public_without_keys to true instead" -}}
{{- end -}}
{{- $most := .Values.aggregate.replicas -}}
{{- if .Values.aggregate.autoscaling.enabled -}}
{{- $most = .Values.aggregate.autoscaling.maxReplicas -}}
{{- if not .Values.aggregate.autoscaling.prometheus -}}
{{- fail "aggregate.autoscaling needs the address of Prometheus: set aggregate.autoscaling.prometheus" -}}
{{- end -}}
{{- end -}}
{{- $partitions := default 8 .Values.settings.partitions -}}
{{- if gt (int $most) (int $partitions) -}}
{{- fail (printf "%d aggregators for %d partitions: those above have nothing to do. Lower aggregate.replicas, or aggregate.autoscaling.maxReplicas" (int $most) (int $partitions)) -}}
{{- end -}}
{{- end -}}
