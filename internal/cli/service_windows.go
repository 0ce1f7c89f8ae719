package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/eventlog"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/panics"
)

// systemCommands returns commands that only some systems have.
func systemCommands() []*cobra.Command { return []*cobra.Command{serviceCommand()} }

// stopHint is how long the service manager should expect a stop to take, in
// milliseconds: open connections may go on for a while.
const stopHint = 90_000

// runManaged runs a node under the service manager of Windows, if that started the
// process.
func runManaged(run func(hangup, stop <-chan os.Signal) error) (managed bool, err error) {
	if managed, err = svc.IsWindowsService(); err != nil || !managed {
		return false, nil // it cannot be told: then signals count
	}
	s := &service{run: run}
	if err := svc.Run("", s); err != nil {
		return true, fault.New(fault.Local, "Windows service: %w", err)
	}
	return true, s.err
}

// service is a node that the service manager started.
type service struct {
	run func(hangup, stop <-chan os.Signal) error
	err error
}

// Execute implements svc.Handler.
func (s *service) Execute(args []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (ownCode bool, code uint32) {
	hangup, stop := make(chan os.Signal, 1), make(chan os.Signal, 2)
	ended := make(chan error, 1)
	go panics.Contain(slog.Default(), func(err error) { ended <- err }, func() { ended <- s.run(hangup, stop) })()
	status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown | svc.AcceptParamChange}
	for {
		select {
		case s.err = <-ended:
			if s.err == nil {
				return false, 0
			}
			tell(args[0], s.err)
			return true, uint32(exitCode(s.err))
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				status <- r.CurrentStatus
			case svc.ParamChange:
				send(hangup)
			case svc.Stop, svc.Shutdown:
				status <- svc.Status{State: svc.StopPending, WaitHint: stopHint}
				send(stop)
			}
		}
	}
}

// send asks for something, unless the same request waits already.
func send(to chan<- os.Signal) {
	select {
	case to <- os.Interrupt:
	default:
	}
}

// tell writes an error to the system's event log: a service has no standard error.
func tell(name string, err error) {
	l, e := eventlog.Open(name)
	if e != nil {
		return // there is no place left to write to
	}
	defer l.Close()
	_ = l.Error(1, err.Error()) // the same
}

// serviceCommand makes and removes services of Windows.
func serviceCommand() *cobra.Command {
	c := &cobra.Command{Use: "service", Short: "Install and remove Windows services", Args: cobra.NoArgs}
	var name string
	install := &cobra.Command{
		Use:   "install -- COMMAND [FLAGS]",
		Short: "Install a Windows service that runs a command of chive",
		Long: `Install a Windows service that runs a command of chive, such as proxy, relay, authority or onion serve, when the
machine starts. It needs an administrator. The service runs as the user LocalService: give it full paths in
--config, --data-dir and --log-file, to files to which that user has access. "sc control NAME paramchange" makes it
read its settings again. Why it ended is in the system's event log.`,
		Example: `  chive service install --name chive-proxy -- proxy --config C:\ProgramData\chive\proxy.toml --data-dir C:\ProgramData\chive\proxy --log-file C:\ProgramData\chive\proxy.log
  sc start chive-proxy`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return installService(name, args) },
	}
	remove := &cobra.Command{
		Use: "remove", Short: "Remove a Windows service", Args: cobra.NoArgs,
		Long:    "Remove a Windows service that install made. Its files stay.",
		Example: "  chive service remove --name chive-proxy",
		RunE:    func(*cobra.Command, []string) error { return removeService(name) },
	}
	for _, sub := range []*cobra.Command{install, remove} {
		sub.Flags().StringVar(&name, "name", "chive", "`NAME` of the service")
	}
	c.AddCommand(install, remove)
	return c
}

// withManager calls f with the service manager.
func withManager(f func(*mgr.Mgr) error) error {
	m, err := mgr.Connect()
	if err != nil {
		return fault.New(fault.Local, "service manager: %w", err)
	}
	defer m.Disconnect()
	return f(m)
}

func installService(name string, args []string) error {
	program, err := os.Executable()
	if err != nil {
		return fault.New(fault.Local, "service: %w", err)
	}
	return withManager(func(m *mgr.Mgr) error {
		s, err := m.CreateService(name, program, mgr.Config{
			StartType: mgr.StartAutomatic, DelayedAutoStart: true, ServiceStartName: `NT AUTHORITY\LocalService`,
			DisplayName: fmt.Sprintf("Chive (%s)", name), Description: "Onion routing: chive " + args[0],
		}, args...)
		if err != nil {
			return fault.New(fault.Local, "service %s: %w", name, err)
		}
		defer s.Close()
		if err := eventlog.InstallAsEventCreate(name, eventlog.Error); err != nil {
			return errors.Join(fault.New(fault.Local, "service %s: event log: %w", name, err), s.Delete())
		}
		return nil
	})
}

func removeService(name string) error {
	return withManager(func(m *mgr.Mgr) error {
		s, err := m.OpenService(name)
		if err != nil {
			return fault.New(fault.Local, "service %s: %w", name, err)
		}
		defer s.Close()
		return fault.Wrap(fault.Local, errors.Join(s.Delete(), eventlog.Remove(name)))
	})
}
