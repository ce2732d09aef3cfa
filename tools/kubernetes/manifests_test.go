// Package kubernetes checks the manifests of the examples. It is a module of its own, so that the
// product does not depend on Kubernetes.
package kubernetes

import (
	"maps"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// TestManifests checks that each document has only fields of its kind, with values of the right type,
// and that what refers to something else finds it.
func TestManifests(t *testing.T) {
	text, err := os.ReadFile("../../examples/kubernetes/codex.yaml")
	if err != nil {
		t.Fatal(err)
	}
	services, pods := make(map[string]corev1.Service), make(map[string]corev1.PodTemplateSpec)
	var set appsv1.StatefulSet
	var budget policyv1.PodDisruptionBudget
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var kind struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatal(err)
		}
		var service corev1.Service
		var deployment appsv1.Deployment
		into := map[string]any{
			"v1 Service": &service, "apps/v1 StatefulSet": &set, "apps/v1 Deployment": &deployment, "policy/v1 PodDisruptionBudget": &budget,
		}[kind.APIVersion+" "+kind.Kind]
		if into == nil {
			t.Fatalf("%+v is unknown", kind)
		}
		if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
			t.Errorf("%+v: %v", kind, err)
		}
		switch kind.Kind {
		case "Service":
			services[service.Name] = service
		case "Deployment":
			pods[deployment.Name] = deployment.Spec.Template
			if !maps.Equal(deployment.Spec.Selector.MatchLabels, deployment.Spec.Template.Labels) {
				t.Error(deployment.Name, "does not select its pods")
			}
		}
	}
	pods[set.Name] = set.Spec.Template
	if !maps.Equal(set.Spec.Selector.MatchLabels, set.Spec.Template.Labels) || !maps.Equal(budget.Spec.Selector.MatchLabels, set.Spec.Template.Labels) {
		t.Error("the pods of the nodes are not selected")
	}
	if services[set.Spec.ServiceName].Spec.ClusterIP != corev1.ClusterIPNone {
		t.Error("the pods of the nodes have no names")
	}
	for name, pod := range pods {
		checkPod(t, pod, set.Spec.VolumeClaimTemplates)
		if !maps.Equal(services[name].Spec.Selector, pod.Labels) {
			t.Error(name, "has no service")
		}
	}
	node := set.Spec.Template.Spec
	stop := node.Containers[0].Lifecycle.PreStop.Sleep.Seconds
	if *node.TerminationGracePeriodSeconds < stop+10+30 { // with the default of drain_timeout, and slow readers
		t.Error("a pod is killed before its turns have ended")
	}
}

// checkPod checks that the volumes and ports that containers name exist, and that no two containers
// share a name.
func checkPod(t *testing.T, pod corev1.PodTemplateSpec, claims []corev1.PersistentVolumeClaim) {
	t.Helper()
	volumes := make(map[string]bool)
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
	}
	for _, c := range claims {
		volumes[c.Name] = true
	}
	for _, c := range pod.Spec.Containers {
		if c.Name == "" || c.Image == "" || len(c.Ports) == 0 {
			t.Errorf("%+v lacks a name, an image or a port", c)
		}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] || m.MountPath == "" {
				t.Errorf("%s mounts %+v", c.Name, m)
			}
		}
		for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			if p != nil && (p.HTTPGet == nil || p.HTTPGet.Port.String() != c.Ports[0].Name) {
				t.Errorf("%s: %+v", c.Name, p)
			}
		}
	}
}
