package deploy

import (
	"os"
	"path"
	"path/filepath"
	"regexp"

	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
)

// Names of what Export writes.
const (
	ComposeName    = "compose.yaml"
	KubernetesName = "kubernetes.yaml"
	ReadmeName     = "README.md"
	dockerfileName = "Dockerfile"
	programName    = "chivelab"
	emptyName      = "empty" // a directory
)

// What is where in a container.
const (
	inProgram = "/" + programName
	inData    = "/data"    // the node's own: keys, state, results
	inNetwork = "/network" // holds the network's file
)

// owner is who runs the program in a container. No user of a usual system has this number.
const owner = 65532

// Memory of a container, in MiB. Nodes of the shipped inventory were seen to take 4 to 12.
const (
	memoryUsual = 64
	memoryMost  = 256
)

// mostThreads bounds the threads of a container.
const mostThreads = 256

// dockerfile makes the image of all roles. Volumes take over the owner of the directory that they cover.
const dockerfile = `# The program alone. Keys are not in it: each container makes its own, in its volume.
FROM scratch
COPY chivelab /chivelab
COPY --chown=65532:65532 empty /data
COPY --chown=65532:65532 empty /network
USER 65532:65532
STOPSIGNAL SIGTERM
ENTRYPOINT ["/chivelab"]
CMD ["help"]
`

// Export is what is written for containers.
type Export struct {
	Inventory *Inventory
	Program   string // path of this program, or another build of it, for Linux and without shared libraries
	Image     string // what the image is called; empty: as the program's content says
	Out       string // directory
}

// imageForm is what an image may be called. It is also safe in a shell's line.
var imageForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9._/-]|:[0-9]+/)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$`)

// Compose writes a file for docker compose, with all that is needed to make the image. It returns the next command.
func (e *Export) Compose() (next string, err error) {
	net, err := e.Inventory.composeNetwork()
	if err != nil {
		return "", err
	}
	p, err := e.image()
	if err != nil {
		return "", err
	}
	doc, err := e.Inventory.compose(p, net)
	if err != nil {
		return "", err
	}
	return composeNext, e.write(ComposeName, doc, composeReadme(e.Inventory))
}

// Kubernetes writes manifests for Kubernetes, with all that is needed to make the image. It returns the next command.
func (e *Export) Kubernetes() (next string, err error) {
	p, err := e.image()
	if err != nil {
		return "", err
	}
	doc, err := e.Inventory.kubernetes(p)
	if err != nil {
		return "", err
	}
	return kubernetesNext(p), e.write(KubernetesName, doc, kubernetesReadme(e.Inventory, p))
}

// image writes what the image is made of.
func (e *Export) image() (image, error) {
	if e.Image != "" && (len(e.Image) > 255 || !imageForm.MatchString(e.Image)) {
		return image{}, fault.New(fault.Config, "--image: %q is no name of an image", e.Image)
	}
	if err := os.MkdirAll(filepath.Join(e.Out, emptyName), 0o755); err != nil {
		return image{}, fault.Wrap(fault.Local, err)
	}
	p, err := takeProgram(e.Program, filepath.Join(e.Out, programName))
	if err != nil {
		return image{}, err
	}
	if e.Image != "" {
		p.name = e.Image
	}
	return p, atomicfile.Write(filepath.Join(e.Out, dockerfileName), []byte(dockerfile), atomicfile.Report)
}

func (e *Export) write(name string, doc []byte, readme string) error {
	if err := atomicfile.Write(filepath.Join(e.Out, name), doc, atomicfile.Report); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(e.Out, ReadmeName), []byte(readme), atomicfile.Report)
}

// inContainer returns the arguments with which the program plays a role in a container.
func (inv *Inventory) inContainer(n *Node) []string {
	return inv.commandWith(n, inData, path.Join(inNetwork, networkName))
}

// keysInContainer returns those with which it makes the directory's keys there, and puts the network's file into dir.
func (inv *Inventory) keysInContainer(dir string) []string {
	return append(inv.keysCommand(inData), "--network", path.Join(dir, networkName))
}

// keeps tells whether a role has keys.
func (r Role) keeps() bool { return r == Directory || r == Guard || r == Middle || r == Exit }
