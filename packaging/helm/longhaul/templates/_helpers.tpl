{{- define "longhaul.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "longhaul.labels" -}}
app.kubernetes.io/name: longhaul
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "longhaul.podSecurity" -}}
runAsNonRoot: true
runAsUser: 7411
runAsGroup: 7411
fsGroup: 7411
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "longhaul.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "longhaul.databaseSecret" -}}
{{ .Values.database.existingSecret | default (printf "%s-database" .Release.Name) }}
{{- end }}

{{- define "longhaul.databaseUrl" -}}
{{ .Values.hub.databaseUrl | default (printf "postgres://longhaul@%s-database/longhaul" .Release.Name) }}
{{- end }}
