{{- define "spdist.labels" -}}
app.kubernetes.io/name: spdist
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* What tells the pods of a role apart: (list . "manager"). */ -}}
{{- define "spdist.selector" -}}
app.kubernetes.io/name: spdist
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "spdist.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* Where the pods of a role are reached by name. */ -}}
{{- define "spdist.domain" -}}
{{ (index . 0).Release.Name }}-{{ index . 1 }}.{{ (index . 0).Release.Namespace }}.svc.{{ (index . 0).Values.clusterDomain }}
{{- end }}

{{- /* The address of every manager, with commas between them. */ -}}
{{- define "spdist.managers" -}}
{{- $root := . -}}
{{- range $i := until (int .Values.managers.replicas) -}}
{{- if $i }},{{ end -}}
https://{{ $root.Release.Name }}-manager-{{ $i }}.{{ include "spdist.domain" (list $root "manager") }}:9543
{{- end -}}
{{- end }}

{{- /* What both roles know: who they are, and passwords by name. */ -}}
{{- define "spdist.environment" -}}
- name: SPDIST_NODE_ID
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: SPDIST_HOST
  value: $(SPDIST_NODE_ID).{{ include "spdist.domain" . }}
- name: SPDIST_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ (index . 0).Values.secrets.existing }}, key: admin-password}}
- name: SPDIST_NODE_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ (index . 0).Values.secrets.existing }}, key: node-password}}
- name: SPDIST_KAFKA
  value: {{ (index . 0).Values.kafka.bootstrapServers | quote }}
{{- end }}

{{- define "spdist.pod" -}}
securityContext:
  runAsNonRoot: true
  {{- with .Values.user.id }}
  runAsUser: {{ . }}
  {{- end }}
  runAsGroup: 0
  {{- with .Values.user.fsGroup }}
  fsGroup: {{ . }}
  {{- end }}
  seccompProfile: {type: RuntimeDefault}
automountServiceAccountToken: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "spdist.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- /* Two pods of a role on one machine only where there are no others: (list . "manager"). */ -}}
{{- define "spdist.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "spdist.selector" . | nindent 8 }}
{{- end }}
