{{- /*
A namespace with its labels, which hold pods to their limits: made where it is not there, else checked. Helm keeps a release in a namespace
that is there before, so that one it cannot make. A level of Pod Security that is stricter than baseline will do. Takes the root and the
Namespace's YAML. Without a cluster to ask it is always made.
*/ -}}
{{- define "tenancy.namespace" }}
{{- $root := index . 0 }}
{{- $text := index . 1 }}
{{- $wanted := fromYaml $text }}
{{- $name := $wanted.metadata.name }}
{{- $there := lookup "v1" "Namespace" "" $name }}
{{- $asked := lookup "v1" "Namespace" "" "kube-system" }}
{{- $labels := list }}
{{- range $key, $value := $wanted.metadata.labels }}
{{- if ne $key "app.kubernetes.io/part-of" }}
{{- $labels = append $labels (printf "%s=%s" $key $value) }}
{{- end }}
{{- end }}
{{- $command := printf "kubectl label --overwrite namespace %s %s" $name (join " " $labels) }}
{{- $ours := eq (dig "metadata" "annotations" "meta.helm.sh/release-name" "" $there) $root.Release.Name }}
{{- if and $root.Values.namespace.create (or (not $asked) $ours (and (not $there) (ne $name $root.Release.Namespace))) }}
{{- $text }}
{{- else if $there }}
{{- range $key, $value := $wanted.metadata.labels }}
{{- $has := dig "metadata" "labels" $key "" $there }}
{{- $stricter := and (eq $value "baseline") (eq $has "restricted") }}
{{- if and (ne $key "app.kubernetes.io/part-of") (ne $has $value) (not $stricter) }}
{{- fail (printf "\nThe namespace %s is not this release's and lacks the label %s=%s. Label it, and try again:\n  %s" $name $key $value $command) }}
{{- end }}
{{- end }}
{{- else if $asked }}
{{- fail (printf "\nThe namespace %s is not there, and this release does not make it. Make it, and try again:\n  kubectl create namespace %s\n  %s" $name $name $command) }}
{{- end }}
{{- end }}
