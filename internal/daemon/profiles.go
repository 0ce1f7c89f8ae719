package daemon

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"runtime"
	"strconv"
	"time"

	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/internal/localhttp"
	"github.com/chivenet/chive/internal/options"
	"github.com/chivenet/chive/internal/socks"
)

// What a process with a port for profiles samples. Without one, it samples nothing.
const (
	heapRate  = 512 << 10 // one allocation for so many bytes
	blockRate = 1_000_000 // one wait for so many nanoseconds of waiting
	mutexRate = 100       // one of so many waits for a lock
)

// maxSeconds bounds the seconds for which a request wants a profile or trace.
const maxSeconds = 300

// checkProfiles refuses addresses that other machines can reach: whoever reads profiles learns
// when a node is busy with what.
func checkProfiles(s string) error {
	if err := socks.CheckAddr(s); err != nil {
		return err
	}
	if a, err := netip.ParseAddrPort(s); err == nil && !a.Addr().Unmap().IsLoopback() {
		return fault.New(fault.Config, "listening address %q: profiles are for this machine only: give an address of loopback, such as 127.0.0.1:6060, or unix:PATH", s)
	}
	return nil
}

// profiles serves the profiles of net/http/pprof. Its cmdline is left out, because arguments may
// have keys and names of onion services, and symbol, because the profiles have their symbols.
func profiles() http.Handler {
	mux := http.NewServeMux()
	const at = "GET /debug/pprof/"
	for _, name := range []string{"allocs", "block", "goroutine", "heap", "mutex", "threadcreate"} {
		mux.Handle(at+name, pprof.Handler(name))
	}
	mux.HandleFunc(at+"profile", pprof.Profile)
	mux.HandleFunc(at+"trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close") // its body is not read
			http.Error(w, "a request for a profile has no body", http.StatusBadRequest)
			return
		}
		if s := r.URL.Query().Get("seconds"); s != "" {
			if n, err := strconv.ParseFloat(s, 64); err != nil || !(n >= 0 && n <= maxSeconds) {
				http.Error(w, fmt.Sprintf("seconds must be from 0 to %d", maxSeconds), http.StatusBadRequest)
				return
			}
		}
		defer localhttp.Keep(r.Context())()
		// The time for reading the request would end a profile that takes longer. For the answer,
		// package pprof adds the seconds itself.
		if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// sample begins to sample for profiles, if the process has a port for them.
func (c *Common) sample() {
	if c.Profiles != "" && runtime.MemProfileRate == 0 {
		runtime.MemProfileRate = heapRate
	}
}

// openProfiles opens the port for profiles, until stop. If it ends by itself, fail hears why.
func openProfiles(addr string, log *slog.Logger, fail func(error)) (at net.Addr, stop func(), err error) {
	if err := checkProfiles(addr); err != nil {
		return nil, nil, options.Wrong("Profiles", "%w", err)
	}
	l, err := socks.Listen(addr)
	if err != nil {
		return nil, nil, options.In("Profiles", err)
	}
	runtime.SetBlockProfileRate(blockRate)
	before := runtime.SetMutexProfileFraction(mutexRate)
	end := serveProfiles(l, profiles(), log, fail)
	return l.Addr(), func() {
		end()
		runtime.SetBlockProfileRate(0)
		runtime.SetMutexProfileFraction(before)
	}, nil
}

func serveProfiles(l net.Listener, h http.Handler, log *slog.Logger, fail func(error)) (stop func()) {
	srv := &localhttp.Server{Handler: h, Guard: localhttp.Guard{Loopback: true}, Log: log, Port: "profiles"}
	return serveLocal(srv.Serve, l, log, fail)
}
