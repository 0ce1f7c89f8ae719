package deploy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// manifestSchemas compiles the published schemas of the kinds that are used. Kubernetes refuses fields that it does not
// know, and its schemas do not say so: here they do.
func manifestSchemas(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	b, err := os.ReadFile("testdata/kubernetes-openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range doc.(map[string]any)["components"].(map[string]any)["schemas"].(map[string]any) {
		if m := s.(map[string]any); m["properties"] != nil && m["additionalProperties"] == nil {
			m["additionalProperties"] = false
		}
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("k8s.json", doc); err != nil {
		t.Fatal(err)
	}
	out := map[string]*jsonschema.Schema{}
	for kind, at := range map[string]string{
		"v1 Namespace": "io.k8s.api.core.v1.Namespace", "v1 Service": "io.k8s.api.core.v1.Service",
		"apps/v1 StatefulSet": "io.k8s.api.apps.v1.StatefulSet", "batch/v1 Job": "io.k8s.api.batch.v1.Job",
	} {
		if out[kind], err = c.Compile("k8s.json#/components/schemas/" + at); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// manifests reads documents of YAML, and has a schema judge each.
func manifests(schemas map[string]*jsonschema.Schema, doc []byte) (all []map[string]any, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(doc))
	for {
		var v any
		if err := dec.Decode(&v); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		b, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		m, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		o, _ := m.(map[string]any)
		kind, _ := o["kind"].(string)
		version, _ := o["apiVersion"].(string)
		s := schemas[version+" "+kind]
		if s == nil {
			return nil, errors.New("no schema for " + version + " " + kind)
		}
		if err := s.Validate(m); err != nil {
			return nil, err
		}
		all = append(all, o)
	}
}

// at goes down through mappings and lists ("0"); nil: there is nothing.
func at(v any, path ...string) any {
	for _, p := range path {
		switch x := v.(type) {
		case map[string]any:
			v = x[p]
		case []any:
			if len(x) <= int(p[0]-'0') {
				return nil
			}
			v = x[p[0]-'0']
		default:
			return nil
		}
	}
	return v
}

// TestKubernetes: the published schemas take the manifests, and each pod has what it needs and no more.
func TestKubernetes(t *testing.T) {
	schemas := manifestSchemas(t)
	for _, doc := range []string{string(shipped), oddNames()} {
		dir, _ := exportInto(t, doc, (*Export).Kubernetes)
		inv, err := Parse("x.toml", []byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dir, KubernetesName))
		if err != nil {
			t.Fatal(err)
		}
		all, err := manifests(schemas, b)
		if err != nil {
			t.Fatal(err)
		}
		if len(all) != 2+len(Roles) {
			t.Fatal(len(all), "documents")
		}
		for i, m := range all[2:] {
			n := inv.Node(Roles[i])
			pod := at(m, "spec", "template", "spec")
			if at(m, "metadata", "name") != n.Name || at(m, "metadata", "namespace") != "chive-"+inv.Name || (m["kind"] == "Job") != (n.Role == Client) {
				t.Errorf("%s: %v", n.Name, m["metadata"])
			}
			for key, want := range map[string]any{"hostNetwork": true, "automountServiceAccountToken": false} {
				if at(pod, key) != want {
					t.Errorf("%s: %s is %v", n.Name, key, at(pod, key))
				}
			}
			if at(pod, "nodeSelector", inv.nodeLabel()) != n.Name || at(pod, "securityContext", "runAsNonRoot") != true || at(pod, "securityContext", "fsGroupChangePolicy") != "OnRootMismatch" {
				t.Errorf("%s: %v", n.Name, pod)
			}
			containers := append([]any{at(pod, "containers", "0")}, at(pod, "initContainers", "0"))
			if containers[1] == nil {
				containers = containers[:1]
			} else if n.Role != Directory {
				t.Error(n.Name, "makes the directory's keys")
			}
			for _, c := range containers {
				own := at(c, "securityContext")
				if at(own, "readOnlyRootFilesystem") != true || at(own, "allowPrivilegeEscalation") != false || at(own, "capabilities", "drop", "0") != "ALL" ||
					at(own, "capabilities", "add") != nil || at(c, "resources", "limits", "memory") == nil {
					t.Errorf("%s: %v", n.Name, c)
				}
			}
			if (at(m, "spec", "volumeClaimTemplates", "0") != nil) != n.Role.keeps() {
				t.Error(n.Name, "keeps its keys:", at(m, "spec", "volumeClaimTemplates"))
			}
			if at(containers[0], "readinessProbe") == nil || (at(containers[0], "livenessProbe") == nil) != (n.Role == Client) {
				t.Error(n.Name, "has no probe")
			}
		}
		for _, c := range []struct{ was, is string }{
			{"hostNetwork: true", "hostNetworks: true"}, {"replicas: 1", "replicas: one"}, {"      containers:", "      container:"}, {"serviceName: nodes", ""},
			{"containerPort: 9001", "containerPort: or"}, {"kind: Job", "kind: Jobs"}, {"failureThreshold: 3", "failureThreshold: [3]"}, {"mountPath: /data", "path: /data"},
		} {
			broken := bytes.Replace(b, []byte(c.was), []byte(c.is), 1)
			if bytes.Equal(broken, b) {
				t.Fatal("nothing changed:", c.was)
			}
			if _, err := manifests(schemas, broken); err == nil {
				t.Error("taken:", c.is)
			}
		}
	}
}
