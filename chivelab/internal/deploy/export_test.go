package deploy

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/chivenet/chive/internal/fault"
)

// exportInto writes an inventory for containers.
func exportInto(t *testing.T, doc string, write func(*Export) (string, error)) (dir, next string) {
	t.Helper()
	inv, err := Parse("x.toml", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	next, err = write(&Export{Inventory: inv, Program: fakeProgram(t), Out: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{ComposeName, KubernetesName} { // nothing secret is in what is written
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil && (bytes.Contains(b, []byte("v3ident")) || bytes.Contains(b, []byte("ed25519 ="))) {
			t.Error("keys in", name)
		}
	}
	readme, err := os.ReadFile(filepath.Join(dir, ReadmeName))
	if err != nil || !bytes.Contains(readme, []byte("\n    "+next+"\n")) || bytes.Contains(readme, []byte("%!")) {
		t.Errorf("%s, %v", readme, err)
	}
	return dir, next
}

// oddNames is an inventory whose names mean something else in YAML.
func oddNames() string {
	doc := sevenNodes(`name = "on"`)
	for role, name := range map[Role]string{Guard: "null", Middle: "yes", Exit: "n", Monitor: "e1"} {
		doc = strings.Replace(doc, `role = "`+string(role)+`"`, `role = "`+string(role)+"\"\nname = \""+name+`"`, 1)
	}
	return doc
}

// TestCompose: the loader of docker compose, which has the published schema, takes the file; and each container has what it
// needs and no more.
func TestCompose(t *testing.T) {
	for _, doc := range []string{string(shipped), sevenNodes(""), oddNames()} {
		dir, _ := exportInto(t, doc, (*Export).Compose)
		inv, err := Parse("x.toml", []byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, ComposeName)
		p, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{WorkingDir: dir, ConfigFiles: []types.ConfigFile{{Filename: file}}})
		if err != nil {
			t.Fatal(err)
		}
		if p.Name != "chive-"+inv.Name || len(p.Services) != 8 || len(p.Volumes) != 7 {
			t.Errorf("%s: %d services, %d volumes", p.Name, len(p.Services), len(p.Volumes))
		}
		net := p.Networks[composeNet]
		subnet := netip.MustParsePrefix(net.Ipam.Config[0].Subnet)
		gateway := netip.MustParseAddr(net.Ipam.Config[0].Gateway)
		if !net.Internal || !subnet.Contains(gateway) {
			t.Errorf("%+v", net)
		}
		for name, s := range p.Services {
			if s.User != "65532:65532" || !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || len(s.CapAdd) > 0 || s.Privileged ||
				!slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) || s.Deploy.Resources.Limits.MemoryBytes == 0 || len(s.Ports) > 0 {
				t.Errorf("%s: %+v", name, s)
			}
		}
		for i := range inv.Nodes {
			n := &inv.Nodes[i]
			s, ok := p.Services[n.Name]
			if !ok || s.Networks[composeNet].Ipv4Address != n.Address.String() || n.Address == gateway || !subnet.Contains(n.Address) {
				t.Fatalf("%s: %v", n.Name, s.Networks)
			}
			if (s.Restart == "no") != (n.Role == Client) || (s.HealthCheck == nil) != (n.Role == Client) || s.Command[0] != inv.Command(n, "")[0] {
				t.Errorf("%s: %s %v %v", n.Name, s.Restart, s.HealthCheck, s.Command)
			}
			for _, v := range s.Volumes { // no node sees the keys of another one
				if v.Source != n.Name && !(v.Source == networkVolume && v.ReadOnly) {
					t.Errorf("%s has %+v", n.Name, v)
				}
			}
		}
		if waits := p.Services[inv.Node(Client).Name].DependsOn; len(waits) != 6 {
			t.Error("the client waits for", waits)
		}
	}
}

// TestComposeBroken: the judge sees what is wrong.
func TestComposeBroken(t *testing.T) {
	dir, _ := exportInto(t, sevenNodes(""), (*Export).Compose)
	doc, err := os.ReadFile(filepath.Join(dir, ComposeName))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ was, is string }{
		{"read_only: true", "read_onli: true"}, {"memory: 256M", "memory: [1]"}, {"condition: service_healthy", "condition: well"},
		{"ipv4_address", "ipv5_address"}, {"interval: 10s", "interval: soon"}, {"internal: true", "internal: {}"}, {"source: directory", "source: director"}, {"ipv4_address: ", "ipv4_address: [] #"},
	} {
		broken := bytes.Replace(doc, []byte(c.was), []byte(c.is), 1)
		if bytes.Equal(broken, doc) {
			t.Fatal("nothing changed:", c.was)
		}
		_, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{WorkingDir: dir, ConfigFiles: []types.ConfigFile{{Filename: "x.yaml", Content: broken}}})
		if err == nil {
			t.Error("taken:", c.is)
		}
	}
}

// TestComposeNetwork: nodes are inside of the network, and the machine's own address is no node's.
func TestComposeNetwork(t *testing.T) {
	with := func(addrs ...string) string {
		doc := sevenNodes("")
		for i, a := range addrs {
			old := `address = "10.29.0.` + string(rune('1'+i)) + `"`
			if !strings.Contains(doc, old) {
				t.Fatal(old)
			}
			doc = strings.Replace(doc, old, `address = "`+a+`"`, 1)
		}
		return doc
	}
	for _, c := range []struct{ doc, subnet, gateway string }{
		{with(), "10.29.0.0/28", "10.29.0.14"}, // one of /29 would have the seventh at its end
		{with("10.29.0.14"), "10.29.0.0/28", "10.29.0.13"},
		{with("10.29.0.16"), "10.29.0.0/27", "10.29.0.30"},
		{with("10.29.0.0"), "10.28.0.0/15", ""}, // the first address of each smaller one
		{with("10.29.200.1"), "10.29.0.0/16", "10.29.255.254"},
		{with("10.30.0.1"), "", ""},
		{with("192.168.0.1"), "", ""},
	} {
		inv, err := Parse("x.toml", []byte(c.doc))
		if err != nil {
			t.Fatal(err)
		}
		got, err := inv.composeNetwork()
		if c.gateway == "" {
			if !fault.Is(err, fault.Config) || !strings.Contains(err.Error(), "x.toml") {
				t.Error(got, err)
			}
			continue
		}
		if err != nil || got[0].value != c.subnet || got[1].value != c.gateway {
			t.Error(got, err, "not", c.subnet)
		}
	}
}

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

// TestWriteResults: an archive has whole lines only, and no file of another directory.
func TestWriteResults(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("x", 10_000)
	for name, text := range map[string]string{"a": "1\n2\n3", "b": "1\n" + long, "c": long + "\n", "d": long, "e": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := WriteResults(&b, dir, []string{"a", "b", "c", "d", "e"}); err != nil {
		t.Fatal(err)
	}
	for r, want := tar.NewReader(&b), []string{"1\n2\n", "1\n", long + "\n", "", ""}; len(want) > 0; want = want[1:] {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != want[0] {
			t.Errorf("%.20q, %v", got, err)
		}
	}
	for _, name := range []string{"nothing", "../a", "/etc/passwd", "..", ".", ""} {
		if err := WriteResults(io.Discard, filepath.Join(dir), []string{name}); err == nil {
			t.Errorf("%q was taken", name)
		}
	}
}

// TestCheck: a node that answers for metrics is well, and one that does not, or answers something else, is not.
func TestCheck(t *testing.T) {
	answer := "up 1\n"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, answer) }))
	defer s.Close()
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	if err := Check(t.Context(), at); err != nil {
		t.Error(err)
	}
	answer = "up\n"
	if err := Check(t.Context(), at); err == nil {
		t.Error("no value, and no error")
	}
	s.Close()
	if err := Check(t.Context(), at); !fault.Is(err, fault.Network) {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Check(ended, at); err == nil {
		t.Error("ended, and no error")
	}
}
