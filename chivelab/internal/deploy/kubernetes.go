package deploy

import (
	"fmt"
	"path"
	"strings"
)

// Names in the manifests that are no node's.
const (
	keysContainer = "make-keys"
	dataVolume    = "data"
	networkMap    = "network" // the ConfigMap with the network's file
	headless      = "nodes"
)

// label is the beginning of labels of this program's own.
const label = "deploy.chivenet.org/"

// kubernetes returns the manifests. Each node is on the host network of a machine of the cluster that has the node's
// address, and a label on the machine says which that is. Relays need this: their addresses are in descriptors, which
// relays and clients dial. The address of a pod is another one after each start; a service has a lasting one, but a
// relay behind it can neither listen there nor come from there, and what is measured would be its translation, too.
func (inv *Inventory) kubernetes(p image) ([]byte, error) {
	docs := []mapping{inv.namespaceManifest(), inv.serviceManifest()}
	for _, role := range Roles {
		n := inv.Node(role)
		if role == Client {
			docs = append(docs, inv.jobManifest(n, p))
		} else {
			docs = append(docs, inv.setManifest(n, p))
		}
	}
	return toYAML(inv.origin("k8s"), docs...)
}

// nodeLabel is the label on machines that says which node is there.
func (inv *Inventory) nodeLabel() string { return label + inv.Name }

func (inv *Inventory) namespaceManifest() mapping {
	return mapping{{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", mapping{
		{"name", inv.project()},
		// The other levels forbid the host network, its ports, and probes of its addresses. All else is as "restricted" wants it.
		{"labels", mapping{{"pod-security.kubernetes.io/enforce", "privileged"}}},
	}}}
}

// serviceManifest returns the service that owns the names of pods. It has no address.
func (inv *Inventory) serviceManifest() mapping {
	return mapping{{"apiVersion", "v1"}, {"kind", "Service"},
		{"metadata", mapping{{"name", headless}, {"namespace", inv.project()}}},
		{"spec", mapping{
			{"clusterIP", "None"},
			{"selector", mapping{{"app.kubernetes.io/instance", inv.Name}}},
			{"ports", []mapping{{{"name", "metrics"}, {"port", metricsPort}}}},
		}},
	}
}

func (inv *Inventory) labels(n *Node) mapping {
	return mapping{{"app.kubernetes.io/name", programName}, {"app.kubernetes.io/instance", inv.Name}, {"app.kubernetes.io/component", string(n.Role)}, {label + "node", n.Name}}
}

func (inv *Inventory) metadata(n *Node) mapping {
	return mapping{{"name", n.Name}, {"namespace", inv.project()}, {"labels", inv.labels(n)}}
}

// setManifest returns a StatefulSet of one pod: its volume, with the node's keys, outlasts the pod.
func (inv *Inventory) setManifest(n *Node, p image) mapping {
	spec := mapping{
		{"serviceName", headless},
		{"replicas", 1},
		{"selector", mapping{{"matchLabels", mapping{{"app.kubernetes.io/instance", inv.Name}, {label + "node", n.Name}}}}},
		{"template", mapping{{"metadata", mapping{{"labels", inv.labels(n)}}}, {"spec", inv.pod(n, p)}}},
	}
	if n.Role.keeps() {
		spec = append(spec,
			entry{"persistentVolumeClaimRetentionPolicy", mapping{{"whenDeleted", "Delete"}, {"whenScaled", "Retain"}}},
			entry{"volumeClaimTemplates", []mapping{{
				{"metadata", mapping{{"name", dataVolume}}},
				{"spec", mapping{{"accessModes", []string{"ReadWriteOnce"}}, {"resources", mapping{{"requests", mapping{{"storage", "256Mi"}}}}}}},
			}}})
	}
	return mapping{{"apiVersion", "apps/v1"}, {"kind", "StatefulSet"}, {"metadata", inv.metadata(n)}, {"spec", spec}}
}

// jobManifest returns the client, which measures once. Its container stays until the results are fetched: nothing else
// reads them from a volume, and the image has no shell.
func (inv *Inventory) jobManifest(n *Node, p image) mapping {
	return mapping{{"apiVersion", "batch/v1"}, {"kind", "Job"}, {"metadata", inv.metadata(n)}, {"spec", mapping{
		{"backoffLimit", 0},
		{"template", mapping{{"metadata", mapping{{"labels", inv.labels(n)}}}, {"spec", inv.pod(n, p)}}},
	}}}
}

// pod returns what a pod is.
func (inv *Inventory) pod(n *Node, p image) mapping {
	spec := mapping{
		{"hostNetwork", true},
		{"dnsPolicy", "Default"}, // nobody looks names up
		{"nodeSelector", mapping{{inv.nodeLabel(), n.Name}, {"kubernetes.io/os", "linux"}}},
		{"automountServiceAccountToken", false},
		{"enableServiceLinks", false},
	}
	if n.Role == Client {
		spec = append(spec, entry{"restartPolicy", "Never"}) // it would measure again
	}
	spec = append(spec, entry{"securityContext", mapping{
		{"runAsNonRoot", true}, {"runAsUser", owner}, {"runAsGroup", owner}, {"fsGroup", owner},
		{"fsGroupChangePolicy", "OnRootMismatch"}, // else each start opens the keys to the group
		{"seccompProfile", mapping{{"type", "RuntimeDefault"}}},
	}})
	command := inv.inContainer(n)
	switch n.Role {
	case Directory: // it makes the file that the others get
		command = inv.commandWith(n, inData, path.Join(inData, networkName))
		spec = append(spec, entry{"initContainers", []mapping{inv.container(n, p, keysContainer, inv.keysInContainer(inData))}})
	case Client:
		command = append(command, "--stay")
	}
	c := append(inv.container(n, p, string(n.Role), command), ports(n)...)
	c = append(c, probes(n)...)
	spec = append(spec, entry{"containers", []mapping{c}})
	var volumes []mapping
	if !n.Role.keeps() && n.Role != Target {
		volumes = append(volumes, mapping{{"name", dataVolume}, {"emptyDir", mapping{{"sizeLimit", "1Gi"}}}})
	}
	if needsMap(n.Role) {
		volumes = append(volumes, mapping{{"name", networkMap}, {"configMap", mapping{{"name", networkMap}}}})
	}
	if len(volumes) > 0 {
		spec = append(spec, entry{"volumes", volumes})
	}
	return spec
}

// needsMap tells whether a role reads the network's file from the ConfigMap. The pod waits until that is there.
func needsMap(r Role) bool { return r == Client || r.keeps() && r != Directory }

// container returns what all containers have.
func (inv *Inventory) container(n *Node, p image, name string, args []string) mapping {
	c := mapping{
		{"name", name},
		{"image", p.name},
		{"imagePullPolicy", "IfNotPresent"},
		{"args", args},
		{"securityContext", mapping{
			{"allowPrivilegeEscalation", false}, {"readOnlyRootFilesystem", true}, {"capabilities", mapping{{"drop", []string{"ALL"}}}},
		}},
		// No bound of processor time: it would be measured.
		{"resources", mapping{
			{"requests", mapping{{"cpu", "100m"}, {"memory", fmt.Sprintf("%dMi", memoryUsual)}}},
			{"limits", mapping{{"memory", fmt.Sprintf("%dMi", memoryMost)}}},
		}},
	}
	var mounts []mapping
	if n.Role != Target {
		mounts = append(mounts, mapping{{"name", dataVolume}, {"mountPath", inData}})
	}
	if needsMap(n.Role) {
		mounts = append(mounts, mapping{{"name", networkMap}, {"mountPath", inNetwork}, {"readOnly", true}})
	}
	if len(mounts) > 0 {
		c = append(c, entry{"volumeMounts", mounts})
	}
	return c
}

// ports returns the ports of a node's container: the scheduler puts no other pod with them on the machine.
func ports(n *Node) mapping {
	var list []mapping
	add := func(name string, port uint16) {
		list = append(list, mapping{{"name", name}, {"containerPort", port}, {"hostPort", port}})
	}
	switch n.Role {
	case Directory:
		add("or", orPort)
		add("dir", dirPort)
	case Guard, Middle, Exit:
		add("or", orPort)
	case Target:
		add("echo", echoPort)
	case Monitor:
		return nil
	}
	add("metrics", metricsPort)
	return mapping{{"ports", list}}
}

// probes returns how the cluster asks a node whether it serves.
func probes(n *Node) mapping {
	// Metrics are asked without a process beside the node, which would take time from what is measured.
	ask := entry{"httpGet", mapping{{"host", n.Address.String()}, {"path", "/metrics"}, {"port", metricsPort}}}
	if n.Role == Monitor || n.Role == Client {
		ask = entry{"exec", mapping{{"command", append([]string{inProgram}, asking(n)...)}}}
	}
	probe := func(period, failures int) mapping {
		return mapping{ask, {"periodSeconds", period}, {"timeoutSeconds", 5}, {"failureThreshold", failures}}
	}
	if n.Role == Client { // ready when it has measured; how long that takes nobody knows
		return mapping{{"readinessProbe", probe(10, 1)}}
	}
	return mapping{
		{"startupProbe", probe(5, int(readyTime.Seconds())/5)},
		{"readinessProbe", probe(10, 3)},
		{"livenessProbe", probe(20, 6)},
	}
}

// kubernetesNext is the next command after manifests were written.
func kubernetesNext(p image) string {
	return "docker build --platform " + p.platform + " --tag " + p.name + " ."
}

// kubernetesReadme tells what to do with the manifests.
func kubernetesReadme(inv *Inventory, p image) string {
	var labels strings.Builder
	for _, role := range Roles {
		n := inv.Node(role)
		fmt.Fprintf(&labels, "    kubectl label node MACHINE %s=%s    # MACHINE has the address %v\n", inv.nodeLabel(), n.Name, n.Address)
	}
	ns, from := "kubectl --namespace "+inv.project(), path.Join(inData, resultsName)
	return fmt.Sprintf(`# %s with Kubernetes

Next, in this directory, make the image:

    %s

Bring it where the machines of the cluster get images from (docker push), or into each of them (docker save, ctr images import).

Each node is on the host network of a machine that has the node's address. "kubectl get nodes --output wide" shows addresses. Tell
the cluster which machine is which:

%s
The relays' keys are in persistent volumes, so the cluster needs a default storage class. Start, and give all nodes the network's
file, which the directory has made with its keys; it has public keys only. Until then the other pods wait.

    kubectl apply --filename %s
    %[5]s rollout status statefulset/%[6]s
    %[5]s logs statefulset/%[6]s --container %[7]s > %[8]s
    %[5]s create configmap %[9]s --from-file %[8]s

The client is ready when it has measured. Then fetch the results, draw them, and remove all:

    %[5]s wait --for condition=ready --timeout 1h pod --selector app.kubernetes.io/component=client
    mkdir -p results
    %[5]s exec job/%[10]s -- %[11]s deploy node results --dir %[12]s %[13]s %[14]s | tar -x -C results
    %[5]s exec statefulset/%[15]s -- %[11]s deploy node results --dir %[12]s %[16]s | tar -x -C results
    chivelab deploy figures results
    kubectl delete --filename %[4]s
    kubectl label node --all %[17]s-

This removes the keys too, and the next network is another one.
`, inv.Name, kubernetesNext(p), labels.String(), KubernetesName, ns, inv.Node(Directory).Name, keysContainer, networkName, networkMap,
		inv.Node(Client).Name, inProgram, from, ReportName, SamplesName, inv.Node(Monitor).Name, MetricsName, inv.nodeLabel())
}
