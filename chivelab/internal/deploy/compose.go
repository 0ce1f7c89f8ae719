package deploy

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"path"
	"path/filepath"
	"slices"

	"github.com/chivenet/chive/internal/fault"
)

// composeNext is the next command after a file for docker compose was written.
const composeNext = "docker compose up --detach --build"

// Names of what is no node's. No name of a node has this mark in it.
const (
	keysService   = "make_keys"
	networkVolume = "network_file"
	composeNet    = "between_nodes"
)

// widest is the largest network for containers.
const widest = 16

// composeNetwork returns the smallest network that all addresses fit into, and an address of it for the machine itself,
// which is no node's.
func (inv *Inventory) composeNetwork() (config mapping, err error) {
	first := inv.Nodes[0].Address
	for bits := 29; bits >= widest; bits-- {
		net, err := first.Prefix(bits)
		if err != nil {
			return nil, fault.Wrap(fault.Local, err)
		}
		size := uint32(1) << (32 - bits)
		a := net.Addr().As4()
		base := binary.BigEndian.Uint32(a[:])
		at := func(i uint32) netip.Addr { return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, base+i))) }
		if slices.ContainsFunc(inv.Nodes, func(n Node) bool {
			return !net.Contains(n.Address) || n.Address == at(0) || n.Address == at(size-1)
		}) {
			continue
		}
		for i := size - 2; i > 0; i-- {
			if gateway := at(i); !slices.ContainsFunc(inv.Nodes, func(n Node) bool { return n.Address == gateway }) {
				return mapping{{"subnet", net.String()}, {"gateway", gateway.String()}}, nil
			}
		}
	}
	return nil, fault.New(fault.Config, "%s: the containers are on one network, and no network of /%d has all addresses of the nodes inside", inv.File, widest)
}

// compose returns the file for docker compose.
func (inv *Inventory) compose(p image, net mapping) ([]byte, error) {
	directory := inv.Node(Directory)
	keys := inv.service(p, "no", inv.keysInContainer(inNetwork), mount(directory.Name, inData, false), mount(networkVolume, inNetwork, false))
	// The image is made once, for this service, and the others must not look for it elsewhere.
	keys = append(keys, entry{"build", "."}, entry{"pull_policy", "build"}, entry{"network_mode", "none"})
	services := mapping{{keysService, keys}}
	volumes := mapping{{networkVolume, mapping{}}}
	var waits mapping // of the client
	for _, role := range Roles {
		n := inv.Node(role)
		var mounts []mapping
		if role != Target {
			volumes = append(volumes, entry{n.Name, mapping{}})
			mounts = append(mounts, mount(n.Name, inData, false))
		}
		if role.keeps() || role == Client {
			mounts = append(mounts, mount(networkVolume, inNetwork, true))
		}
		restart := "unless-stopped"
		if role == Client {
			restart = "no" // it would measure again
		}
		s := inv.service(p, restart, inv.inContainer(n), mounts...)
		s = append(s, entry{"pull_policy", "never"}, entry{"networks", mapping{{composeNet, mapping{{"ipv4_address", n.Address.String()}}}}})
		switch {
		case role.keeps():
			s = append(s, entry{"depends_on", mapping{{keysService, mapping{{"condition", "service_completed_successfully"}}}}})
		case role == Client:
			s = append(s, entry{"depends_on", waits})
		}
		if role != Client {
			s = append(s, entry{"healthcheck", composeCheck(n)})
		}
		waits = append(waits, entry{n.Name, mapping{{"condition", "service_healthy"}}})
		services = append(services, entry{n.Name, s})
	}
	return toYAML(inv.origin("compose"), mapping{
		{"name", inv.project()},
		{"services", services},
		{"networks", mapping{{composeNet, mapping{
			{"internal", true}, // nothing leads out of it
			{"ipam", mapping{{"config", []mapping{net}}}},
		}}}},
		{"volumes", volumes},
	})
}

// origin is the comment at the head of a file.
func (inv *Inventory) origin(to string) string {
	return fmt.Sprintf("# Written by \"chivelab deploy --to %s\" from %q. The links of the inventory are not here: nodes have\n"+
		"# their machine's own network. README.md has the commands.\n", to, filepath.Base(inv.File))
}

// project is what an inventory's things are called where other things are. The name cannot be one that is there anyhow.
func (inv *Inventory) project() string { return "chive-" + inv.Name }

// service returns what all services have.
func (inv *Inventory) service(p image, restart string, command []string, mounts ...mapping) mapping {
	s := mapping{
		{"image", p.name},
		{"platform", p.platform},
		{"command", command},
		{"restart", restart},
		{"user", fmt.Sprintf("%d:%d", owner, owner)},
		{"read_only", true},
		{"cap_drop", []string{"ALL"}},
		{"security_opt", []string{"no-new-privileges:true"}},
		// No bound of processor time: it would be measured.
		{"deploy", mapping{{"resources", mapping{
			{"limits", mapping{{"memory", fmt.Sprintf("%dM", memoryMost)}, {"pids", mostThreads}}},
			{"reservations", mapping{{"memory", fmt.Sprintf("%dM", memoryUsual)}}},
		}}}},
	}
	if len(mounts) > 0 {
		s = append(s, entry{"volumes", mounts})
	}
	return s
}

// mount puts a volume into a container. The short form would take a name of one letter for a drive of Windows.
func mount(volume, at string, only bool) mapping {
	m := mapping{{"type", "volume"}, {"source", volume}, {"target", at}}
	if only {
		m = append(m, entry{"read_only", true})
	}
	return m
}

// composeCheck asks whether a node serves.
func composeCheck(n *Node) mapping {
	return mapping{
		{"test", append([]string{"CMD", inProgram}, asking(n)...)},
		{"interval", "10s"},
		{"timeout", "5s"},
		{"retries", 6},
		{"start_period", readyTime.String()},
	}
}

// asking returns the arguments with which this program asks beside a node whether that serves, or has found something.
func asking(n *Node) []string {
	switch n.Role {
	case Target:
		return []string{"deploy", "node", "healthy", "--metrics", netip.AddrPortFrom(n.Address, metricsPort).String()}
	case Monitor:
		return []string{"deploy", "node", "healthy", "--file", path.Join(inData, resultsName, MetricsName)}
	case Client:
		return []string{"deploy", "node", "healthy", "--file", path.Join(inData, resultsName, ReportName)}
	}
	return []string{"status", "--data-dir", path.Join(inData, stateName)}
}

// composeReadme tells what to do with the file.
func composeReadme(inv *Inventory) string {
	client, monitor := inv.Node(Client).Name, inv.Node(Monitor).Name
	from := path.Join(inData, resultsName)
	return fmt.Sprintf(`# %s with docker compose

Next, in this directory:

    %s

The directory makes its keys, all nodes start at the addresses of the inventory, and the client measures when they are healthy.
Wait for its end, fetch the results, draw them, and remove all:

    docker compose logs --follow %[3]s
    docker compose stop
    mkdir -p results
    docker compose cp %[3]s:%[5]s/. results
    docker compose cp %[4]s:%[5]s/. results
    chivelab deploy figures results
    docker compose down --volumes --rmi all

Each node has a volume for its keys and results. "down --volumes" removes the keys too, and the next network is another one.
`, inv.Name, composeNext, client, monitor, from)
}
