{{- /* The id of the cluster, with which the names of its pods begin. */ -}}
{{- define "eventflink.cluster" -}}
{{- get .Values.configuration "cluster.id" | default .Release.Name -}}
{{- end -}}

{{- define "eventflink.secret" -}}
{{- .Values.clusterSecret.existing | default (printf "%s-cluster-secret" .Release.Name) -}}
{{- end -}}

{{- define "eventflink.serviceAccount" -}}
{{- .Values.serviceAccount.existing | default (printf "%s-master" .Release.Name) -}}
{{- end -}}

{{- define "eventflink.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}

{{- /* By what pods are found. */ -}}
{{- define "eventflink.selector" -}}
app.kubernetes.io/name: eventflink
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "eventflink.labels" -}}
{{ include "eventflink.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- /* Where a pod runs: `place` has the keys of master, rest or taskExecutor. */ -}}
{{- define "eventflink.place" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* What each container has: the store's variables, and the configuration with the secret of the cluster. */ -}}
{{- define "eventflink.container" -}}
securityContext: {{- toYaml .Values.securityContext | nindent 2 }}
volumeMounts:
  - {name: configuration, mountPath: /etc/eventflink}
  - {name: secret, mountPath: /etc/eventflink-secret}
  - {name: data, mountPath: /var/lib/eventflink}
{{- with .Values.volumeMounts }}
{{ toYaml . | indent 2 }}
{{- end }}
{{- with .Values.store.secret }}
envFrom: [{secretRef: {name: {{ . }}, optional: true}}]
{{- end }}
{{- end -}}

{{- define "eventflink.volumes" -}}
volumes:
  - {name: configuration, configMap: {name: {{ .Release.Name }}}}
  - {name: secret, secret: {secretName: {{ include "eventflink.secret" . }}}}
  - {name: data, emptyDir: {}}
{{- with .Values.volumes }}
{{ toYaml . | indent 2 }}
{{- end }}
{{- end -}}

{{- define "eventflink.pod" -}}
terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
securityContext: {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
