# Every target is bounded in time and uses only the network's loopback.
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
DEADCODE = golang.org/x/tools/cmd/deadcode@v0.52.0
GOVULNCHECK = v1.8.0
# Platforms that must build; relays run on the first three. No file is for darwin/amd64 alone: it has those of
# darwin/arm64 and of linux/amd64.
PLATFORMS = linux/amd64 linux/arm64 linux/arm darwin/arm64 windows/amd64
# Of these, the ones for which devp2p/ is built too: a system each, and 32 bits.
PLATFORMS_DEVP2P = linux/arm darwin/arm64 windows/amd64
# libp2p/ has no code for one system: 32 bits are what could differ.
PLATFORMS_LIBP2P = linux/arm

export CGO_ENABLED ?= 0

.PHONY: all build test demo race lint cross arm bench bench-client bench-relay bench-onion bench-eth judge-onion bench-fte bench-circuit flood
.PHONY: vuln pq-vectors pq-models soak soak-processes fuzz-smoke fuzz-states
.PHONY: changelog release package-test devp2p libp2p peers texts install uninstall
all: lint test

# COMMIT is the commit of a checkout: its hash, its time and, if files were changed since,
# "modified". It goes into bin/chive for "chive version", and nowhere else. Go's own stamp is not
# enough: it knows no worktrees, and GOFLAGS may switch it off. A directory inside somebody else's
# checkout has none.
COMMIT := $(shell test "$$(git rev-parse --show-toplevel 2>/dev/null)" = "$$(pwd -P)" && \
  git log -1 --abbrev=12 --format=%h,%cI && test -z "$$(git status --porcelain)" || echo modified)
comma := ,
empty :=
COMMIT := $(subst $(empty) $(empty),$(comma),$(filter-out modified,$(COMMIT))$(if $(word 2,$(COMMIT)), modified))
STAMP = $(if $(COMMIT),-X github.com/chivenet/chive/internal/version.commit=$(COMMIT))

# The repository has four modules: what people embed and install, the laboratory (chivelab/), Ethereum over
# onions (devp2p/), and libp2p over onions (libp2p/). go.work joins them for whoever works here. What is for
# users is built without it, as a module takes only what its own go.mod names.
# Whatever is only compiled has the same flags as what is shipped (SHIPPED), so that nothing is compiled twice.
SHIPPED = -trimpath -tags nethttpomithttp2
BUILD = $(SHIPPED) -ldflags '-s -w -funcalign=16 $(STAMP)'
MODULES = . chivelab devp2p libp2p

# build makes the static binaries: ./bin/chive and the laboratory, ./bin/chivelab. HTTP/2 is
# left out: nothing here uses it. packaging/chive.size records the size of bin/chive on
# linux/amd64, so that no commit makes it 3 % larger without saying so: "make size" writes it.
build:
	GOWORK=off go build $(BUILD) -o bin/ ./cmd/chive
	GOWORK=off go build -C chivelab $(BUILD) -o ../bin/ .
	@echo "commit: $(if $(COMMIT),$(COMMIT),none: this is no checkout)"
	@size=$$(wc -c < bin/chive); echo "bin/chive: $$size bytes"; test "$$(go env GOOS/GOARCH)" != linux/amd64 || \
	  test $$((size * 100)) -le $$(($$(cat packaging/chive.size) * 103)) || \
	  { echo "bin/chive grew by more than 3 %: packaging/chive.size says $$(cat packaging/chive.size); make size, and say why in the commit"; exit 1; }
# shadow makes bin/shadow/chivelab, which the simulator Shadow can run: it needs the dynamic linker, and so cgo.
.PHONY: shadow
shadow:
	GOWORK=off CGO_ENABLED=1 go build -C chivelab $(BUILD) -o ../bin/shadow/ .

.PHONY: size
size:
	GOWORK=off go build $(BUILD) -o bin/ ./cmd/chive
	wc -c < bin/chive > packaging/chive.size

# texts makes the manual pages and completions of bin/chive.
texts: bin/man/chive.1
bin/chive:
	$(MAKE) build
bin/man/chive.1: bin/chive
	@mkdir -p bin/man bin/completions
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null) go run ./internal/tools/gendocs man bin/man
	./bin/chive completion bash > bin/completions/chive
	./bin/chive completion zsh > bin/completions/_chive
	./bin/chive completion fish > bin/completions/chive.fish

# install copies bin/chive, its manual pages and completions below PREFIX, on Linux
# the units of systemd too, and settings to SYSCONFDIR/chive, where it replaces
# none. make build texts && sudo make install. DESTDIR is put before every path.
# uninstall removes all but the settings and /var/lib.
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
UNITDIR ?= $(PREFIX)/lib/systemd/system
SETTINGS = proxy onion relay authority
install: bin/chive bin/man/chive.1
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(PREFIX)/share/man/man1' '$(DESTDIR)$(PREFIX)/share/bash-completion/completions'
	install -d '$(DESTDIR)$(PREFIX)/share/zsh/site-functions' '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d' '$(DESTDIR)$(SYSCONFDIR)/chive'
	install -m 755 bin/chive '$(DESTDIR)$(PREFIX)/bin/chive'
	install -m 644 bin/man/*.1 '$(DESTDIR)$(PREFIX)/share/man/man1'
	install -m 644 bin/completions/chive '$(DESTDIR)$(PREFIX)/share/bash-completion/completions/chive'
	install -m 644 bin/completions/_chive '$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_chive'
	install -m 644 bin/completions/chive.fish '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/chive.fish'
	@for s in $(SETTINGS); do f='$(DESTDIR)$(SYSCONFDIR)/chive/'$$s.toml; test -e "$$f" || install -m 644 packaging/etc/$$s.toml "$$f" || exit 1; done
	@test "$$(uname -s)" != Linux || { install -d '$(DESTDIR)$(UNITDIR)' && for s in $(SETTINGS); do \
	  sed -e 's|/usr/local/bin/chive|$(PREFIX)/bin/chive|g' -e 's|/etc/chive/|$(SYSCONFDIR)/chive/|g' contrib/systemd/chive-$$s.service > bin/chive-$$s.service && \
	  install -m 644 bin/chive-$$s.service '$(DESTDIR)$(UNITDIR)' || exit 1; done; }
uninstall:
	rm -f '$(DESTDIR)$(PREFIX)/bin/chive' '$(DESTDIR)$(PREFIX)/share/man/man1/chive.1' '$(DESTDIR)$(PREFIX)/share/man/man1/'chive-*.1
	rm -f '$(DESTDIR)$(PREFIX)/share/bash-completion/completions/chive' '$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_chive' '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/chive.fish'
	@for s in $(SETTINGS); do rm -f '$(DESTDIR)$(UNITDIR)/'chive-$$s.service; done

# test runs all tests that can run here, with real Tor relays if the programs
# are installed. CHIVE_INTEROP=1 makes a missing program a failure. Those with networks of other programs wait
# more than they work: they run in two halves beside all others, which make room for them. Their output is the last.
# No part of it is a make of its own: make would run such a line for "make -n" too.
TEST_DEVP2P = cd devp2p && go vet ./... && PATH='$(CURDIR)/bin/peers':$$PATH go test -timeout 15m ./...
TEST_LIBP2P = cd libp2p && go vet ./... && go test -timeout 5m ./...
test:
	go vet ./... ./chivelab/...
	@.ci/together "rc=0; go test -timeout 35m -run '$(HALF)' ./interop || rc=1; ($(TEST_DEVP2P)) || rc=1; ($(TEST_LIBP2P)) || rc=1; exit \$$rc" \
	  "go test -timeout 35m -skip '$(HALF)' ./interop/..." \
	  "nice -n 10 go test -timeout 35m \$$(go list ./... ./chivelab/... | grep -v /interop | tr '\n' ' ')"

# devp2p tests the module of Ethereum over onions: a few minutes, and some more the first
# time, when go-ethereum's packages are built. Its tests with stock geth need "make
# peers" (or geth and devp2p in PATH), and skip, loudly, without it.
devp2p:
	$(TEST_DEVP2P)

# libp2p tests the module of libp2p over onions: half a minute, and some more the first time,
# when go-libp2p's packages are built.
libp2p:
	$(TEST_LIBP2P)

# judge-snap has an empty stock geth take the state of another one by snap, through two sidecars: half a minute.
.PHONY: judge-snap
judge-snap:
	cd devp2p && CHIVE_SNAP=1 CHIVE_INTEROP=1 PATH="$(CURDIR)/bin/peers:$$PATH" go test -count 1 -timeout 10m -v -run '^TestSnapSync$$' ./interop

# peers builds stock geth and go-ethereum's judge, devp2p, into bin/peers. The first time
# takes some minutes.
peers:
	GOWORK=off go build -C devp2p/peers -trimpath -o $(CURDIR)/bin/peers/ tool

# peers-tor puts the newest tor that Debian has into bin/peers/tor-newest, with its own
# libraries, and installs nothing: bin/tor, bin/tor-gencert, changelog. What is there stays.
.PHONY: peers-tor
peers-tor:
	.ci/newest-tor bin/peers/tor-newest

# interop-newest runs the tests with C tor as the peer once more, with the newest tor: two halves of them at the same time, as
# they wait for networks more than they work.
HALF = ^Test([A-N]|Onion[AF])
.PHONY: interop-newest
interop-newest: peers-tor
	@export CHIVE_TOR=$(CURDIR)/bin/peers/tor-newest/bin/tor; go test -timeout 35m -run '$(HALF)' ./interop & half=$$!; \
	  go test -timeout 35m -skip '$(HALF)' ./interop/... || failed=1; wait $$half || failed=1; test -z "$$failed"
	CHIVE_TOR=$(CURDIR)/bin/peers/tor-newest/bin/tor go test -timeout 10m -run 'Ctor|Mixed|TorAuthorities|^TestAppearance$$' ./internal/channel ./lab ./chivelab/internal/appearance

# public-network takes the authorities and fallback directories of the public network from
# the program of the newest tor that Debian has: internal/netdir/public.txt.
.PHONY: public-network
public-network:
	.ci/newest-tor --again bin/peers/tor-newest
	@mkdir -p bin
	go run ./internal/tools/news -public-network > bin/public.txt
	mv bin/public.txt internal/netdir/public.txt

# news prints what the newest tor that Debian has knows and Chive does not (CONTRIBUTING.md,
# "What is new in C tor"). It fails only if it cannot look.
.PHONY: news
news:
	@.ci/newest-tor --again bin/peers/tor-newest
	@go run ./internal/tools/news

# demo runs one session of the binary on a private network of C tor's relays.
demo:
	CHIVE_INTEROP=1 go test -count 1 -timeout 5m -v -run '^TestCommand$$' ./interop

# race needs a C compiler. It leaves out the tests with other programs.
race:
	CGO_ENABLED=1 go test -race -short -timeout 20m $$(go list ./... ./chivelab/... | grep -v /interop)
	cd devp2p && CGO_ENABLED=1 go test -race -short -timeout 10m $$(go list ./... | grep -v /interop)
	cd libp2p && CGO_ENABLED=1 go test -race -short -timeout 5m ./...

# mutants tries whether the tests would notice mistakes: in the packages of PKG (default: all that were
# run before), or in the files that have changed SINCE a commit. It names those that nobody notices in
# internal/tools/mutants/survivors.txt when UPDATE=1, and else fails if that file does not have one.
# It goes on where it was interrupted (bin/mutants). SAMPLE tries some at random, by SEED, for at most TIME.
.PHONY: mutants
mutants:
	@go run ./internal/tools/mutants -pkg '$(PKG)' -since '$(SINCE)' -sample '$(or $(SAMPLE),0)' -seed '$(SEED)' -time '$(or $(TIME),0)' $(if $(UPDATE),-update)

lint:
	@bad=$$(git ls-files -z '*.go' | xargs -0 gofmt -l); test -z "$$bad" || { echo "gofmt: $$bad"; exit 1; }
	@for m in $(MODULES); do echo "lint $$m"; (cd $$m && go vet ./... && go run $(STATICCHECK) ./... && GOWORK=off go mod tidy -diff) || exit 1; done
	@.ci/dead $(DEADCODE) $(MODULES)

# vuln fails if the program calls code with a known vulnerability. If it cannot
# reach the database, it says so, and uses the facts in .ci/vulndb.
vuln:
	@.ci/vuln $(GOVULNCHECK)

cross:
	@for p in $(PLATFORMS); do for m in . chivelab; do echo "build $$m $$p"; GOWORK=off GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0 go build -C $$m $(SHIPPED) ./... || exit 1; done; done
	@for p in $(PLATFORMS_DEVP2P); do echo "build devp2p $$p"; GOWORK=off GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0 go build -C devp2p $(SHIPPED) ./... || exit 1; done
	@for p in $(PLATFORMS_LIBP2P); do echo "build libp2p $$p"; GOWORK=off GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0 go build -C libp2p $(SHIPPED) ./... || exit 1; done

# boards builds what "chivelab deploy --to ssh" copies to boards: bin/linux-ARCH/chivelab. GOARM=6 is what the
# smallest boards of 32 bits have; on others it is ignored.
boards:
	@for a in amd64 arm64 arm; do GOWORK=off GOOS=linux GOARCH=$$a GOARM=6 CGO_ENABLED=0 go build -C chivelab $(BUILD) -o ../bin/linux-$$a/ . || exit 1; done
.PHONY: boards

# arm runs the ARM binaries, and the cryptography's tests with published vectors,
# under qemu: for correctness, not for time. The binaries build whole
# post-quantum circuits over TLS, with both carriages. The 64-bit one also runs a
# network, and fetches through it. (The 32-bit one can do that too, but qemu
# needs a minute to make the relays' RSA keys.)
arm:
	@for p in arm64:qemu-aarch64 arm:qemu-arm; do arch=$${p%:*}; qemu=$${p#*:}; \
	  GOOS=linux GOARCH=$$arch go build $(SHIPPED) -ldflags '-s -w' -o bin/linux-$$arch/ ./cmd/chive ./chivelab && \
	  $$qemu bin/linux-$$arch/chive version && \
	  for carriage in A B; do timeout 300 $$qemu bin/linux-$$arch/chivelab bench circuit --in-process --count 3 --handshake pq768 --carriage $$carriage || exit 1; done && \
	  { test $$arch = arm || timeout 600 $$qemu bin/linux-$$arch/chivelab run --authorities 1 --relays 2 --exits 1; } && \
	  GOOS=linux GOARCH=$$arch go test $(SHIPPED) -exec $$qemu -short -timeout 2m -run 'Vectors|ACVP|Wycheproof|RFC7748' ./internal/handshake && \
	  GOOS=linux GOARCH=$$arch go test $(SHIPPED) -exec $$qemu -short -timeout 2m ./internal/layer ./internal/cell || exit 1; done

bench:
	go test -run '^$$' -bench . -benchmem ./... ./chivelab/...

# bench-client compares Chive's client with C tor's on the same relays; tor must
# be installed. As root it runs in a network namespace.
bench-client: build
	./bin/chivelab bench client --beside-tor --json bench-client.json

# bench-relay compares Chive's relays with C tor's, for both of C tor's schedulers.
bench-relay: build
	./bin/chivelab bench relay --json bench-relay.json

# bench-onion compares Chive's onion services with C tor's, in one run: both with
# C tor's relays, and Chive's also with Chive's relays. BENCH_ONION=--short takes
# three minutes.
bench-onion: build
	./bin/chivelab bench onion --json bench-onion.json $(BENCH_ONION)

# bench-control compares the control ports of chive tor and of C tor, in one run of five minutes.
.PHONY: bench-control
bench-control: build
	./bin/chivelab bench control --json bench-control.json

# bench-eth measures Ethereum's peer-to-peer protocol over addresses, Chive's onions and C
# tor's, and prints tables: two minutes. BENCH_ETH="--report DIR" takes half an hour and
# more, and writes a report with figures.
bench-eth:
	mkdir -p bin && go build -C devp2p -o $(CURDIR)/bin/ ./cmd/chive-eth
	./bin/chive-eth bench $(or $(BENCH_ETH),--short)

# judge-page has headless Chromium (apt-get install chromium) show the page of a network, and axe-core judge it:
# two minutes. Pictures are in bin/judge-page.
AXE = axe-core@4.10.3
.PHONY: judge-page
judge-page:
	@command -v chromium > /dev/null || { echo "SKIPPED, AND NOTHING IS JUDGED: there is no chromium (apt-get install chromium)"; exit 1; }
	mkdir -p bin/judge-page
	test -s bin/judge-page/axe.min.js || { cd bin/judge-page && npm pack --silent $(AXE) && tar xzf axe-core-*.tgz --strip-components 1 package/axe.min.js; }
	CHIVE_PAGE_JUDGE=$(CURDIR)/bin/judge-page go test -count 1 -timeout 8m -v -run '^TestJudge' ./chivelab/internal/labpage

# judge-onion has C tor judge Chive's onion services in about an hour: each role of a
# relay in turn, introduction points and directories that are killed, changes of time
# periods and shared random values, a service that moves between the programs, and a
# thousand paths with vanguards. CHIVE_ARTI=FILE has Arti judge too. It prints a summary,
# and writes everything into bin/judge-onion.log.
JUDGES_ONION = TestOnionRoles|TestOnionService|TestOnionKill|TestOnionPeriods|TestOnionArti|TestOnionClient|TestVanguardPaths|TestNoTurn
judge-onion:
	@mkdir -p bin
	@CHIVE_INTEROP=1 CHIVE_LONG=1 go test -count 1 -timeout 120m -v -p 1 -parallel 1 -run '^($(JUDGES_ONION))$$' ./internal/path ./internal/client ./interop > bin/judge-onion.log 2>&1; status=$$?; \
	  sed -nE -e '/^ *--- (PASS|FAIL|SKIP)/p' -e 's/^ *[a-z]+_test.go:[0-9]+: (ROLE |.*connects, [0-9]+ failed|.* is back after|.*guards, .*hops;)/    \1/p' bin/judge-onion.log; exit $$status

# flood attacks a relay and an authority of Chive's, and then C tor's, with the same
# floods, in twenty minutes, and measures an honest client meanwhile.
flood: build
	./bin/chivelab bench flood --json flood.json

# bench-fte reproduces "How many users can an fteproxy server serve?": iperf and
# the bench's own load through Chive's proxies, real fteproxy (installed into
# bin/fteproxy by pip) and obfs4proxy, in one run of about six minutes. iperf and
# obfs4proxy must be installed. It writes bench-fte.json and plots into bench-fte/.
bench-fte: build bin/fteproxy/bin/fteproxy
	./bin/chivelab bench fte --connections 1,10,25,50,75,100 --time 1s --fteproxy bin/fteproxy/bin/fteproxy \
	  --kinds classic/manual-http,bulk/manual-http,strict/manual-http,strict/base64,strict/url-path,strict/words,fteproxy/manual-http,fteproxy/words,obfs4 \
	  --iperf iperf --json bench-fte.json --plots bench-fte $(BENCH_FTE)

bin/fteproxy/bin/fteproxy:
	python3 -m venv --clear bin/fteproxy
	bin/fteproxy/bin/pip install --quiet --disable-pip-version-check fteproxy==0.3.2

# peers-stem puts stem's sources into bin/stem, whose integration tests interop.TestStemSuite and TestStemNetwork
# runs: Debian's package lacks them. They need a Python up to 3.11.
.PHONY: peers-stem
peers-stem: bin/stem/source/run_tests.py
bin/stem/source/run_tests.py:
	python3 -m venv --clear bin/stem
	bin/stem/bin/pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: --dest bin/stem stem==1.8.2
	mkdir -p bin/stem/source && tar -xf bin/stem/stem-1.8.2.tar.gz -C bin/stem/source --strip-components 1
	touch bin/stem/source/run_tests.py

# judge-programs runs programs of others, unchanged, with bin/chive as their tor on a private network: what they serve is
# fetched, and what they show is read (interop/programs; docs/control-port.md has the list). It takes five minutes. Those that
# are not here are skipped, loudly: PROGRAMS_NEED=1 makes that a failure. Debian has nyx, onionshare-cli, torsocks and python3-stem;
# the libraries of Python come from their registry into bin/programs, where that can be reached.
.PHONY: judge-programs
judge-programs: build
	@test -e bin/programs/done || { python3 -m venv --clear bin/programs && \
	  bin/programs/bin/pip install --quiet --disable-pip-version-check 'setuptools<81' txtorcon==26.6.0 onionbalance==0.2.4 stem==1.8.2 prometheus_client==0.22.1 retrying==1.4.0 && \
	  touch bin/programs/done; } || echo "SKIPPED: the libraries of Python cannot be had"
	cd interop/programs && GOWORK=off PROGRAMS_PYTHON="$(CURDIR)/bin/programs/bin/python" go test -count 1 -timeout 15m -v .

# judge-stem runs stem's own integration tests, every target of them, with C tor and with chive by the name tor, without a network and
# as a relay of a private one, and compares test by test. It takes an hour.
.PHONY: judge-stem
judge-stem: peers-stem
	CHIVE_LONG=1 STEM_TARGET=RUN_ALL go test -count 1 -timeout 2h -v -run '^TestStem(Suite|Network)$$' ./interop

# bench-wan compares Chive and C tor over emulated distances (root), in 30 minutes.
.PHONY: bench-wan
bench-wan: build
	./bin/chivelab bench wan --out bench-wan

# topologies measures the twelve topologies of space, air and ground with the links of set H, and draws all figures from the
# samples: within an hour on two cores that have nothing else to do. SHORT=1 takes a sample, within ten minutes.
.PHONY: topologies
topologies: build
	./bin/chivelab experiment run h --at-once 6 $(if $(SHORT),--short) --out bin/topologies$(if $(SHORT),-short); status=$$?; \
	  ./bin/chivelab experiment figures --out bin/topologies$(if $(SHORT),-short)/figures bin/topologies$(if $(SHORT),-short)/h*; exit $$status

# bench-circuit builds a thousand circuits of three hops with each handshake, and
# some with carriage B, with a directory that is fetched for each, and of every
# length. It writes reports, raw samples and figures into bench-circuit/.
bench-circuit: build
	@mkdir -p bench-circuit
	@for h in ntor-v3 pq512 pq768 pq1024; do \
	  ./bin/chivelab bench circuit --count 1000 --handshake $$h --json bench-circuit/$$h.json || exit 1; done
	./bin/chivelab bench circuit --count 1000 --handshake pq768 --carriage B --json bench-circuit/pq768-rekey.json
	./bin/chivelab bench circuit --count 100 --handshake pq768 --cold-directory --plots bench-circuit/cold --lengths 0
	./bin/chivelab bench circuit --count 1000 --handshake pq768 --plots bench-circuit/cached --lengths 200

# pq-vectors makes the vectors of post-quantum circuits and onion services again
# with independent programs, whose ML-KEM and X25519 come from PyPI, and compares
# them with the vectors of the tests.
pq-vectors:
	python3 -m venv --clear bin/pq
	bin/pq/bin/pip install --quiet --disable-pip-version-check kyber-py==1.2.0 cryptography==50.0.2
	bin/pq/bin/python docs/spec/pq_reference.py | cmp - internal/handshake/testdata/pq-vectors.json
	bin/pq/bin/python docs/spec/pq_onion_reference.py | cmp - internal/handshake/testdata/pq-onion-vectors.json

# pq-models checks the models of the carriages with ProVerif (2.04). Five
# queries must be false: what is not protected, and, for each carriage, that the
# states in question cannot be reached (docs/spec/pq-circuits.md, pq-onions.md).
PROVERIF ?= proverif
pq-models:
	@mkdir -p bin
	@for m in a b h; do timeout 600 $(PROVERIF) docs/spec/pq-carriage-$$m.pv | grep '^RESULT' || exit 1; done > bin/pq-models
	@cat bin/pq-models
	@test "$$(grep -c 'is true' bin/pq-models)" = 10 && test "$$(grep -c 'is false' bin/pq-models)" = 5

# soak puts load on a network of Chive's for SOAK while relays end and come back at
# random, and checks that no byte is wrong and that nothing leaks. SOAK_RATE bounds
# the bytes per second, so that other work can run at the same time.
# soak-processes does the same with relays that are processes, and kills them with
# SIGKILL.
SOAK ?= 30m
SOAK_RATE ?= 0
soak:
	go test -count 1 -timeout 0 -run '^TestSoak$$' -v ./chivelab/internal/soak -soak $(SOAK) -soak-rate $(SOAK_RATE)
soak-processes: build
	go test -count 1 -timeout 0 -run '^TestSoak$$' -v ./chivelab/internal/soak -soak $(SOAK) -soak-rate $(SOAK_RATE) -soak-program $(CURDIR)/bin/chive

# fuzz-smoke runs every fuzz target for FUZZTIME after its committed corpus,
# except those of fuzz-states. To minimize inputs would take all of that time where
# signatures and keys give each run another coverage.
fuzz-smoke: FUZZTIME ?= 5s
fuzz-smoke:
	@for pkg in $$(go list ./... ./chivelab/... | grep -v /internal/hostile); do \
	  for f in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$f"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 0x $$pkg || exit 1; \
	  done; \
	done

# fuzz-states lets hostile peers attack whole relays, clients and authorities
# (internal/hostile), FUZZTIME for each target. That is a number of runs: with a time,
# go's fuzzer now and then reports its own end as a failure ("context deadline
# exceeded", without an input). Coverage is measured only in the
# fuzzed packages: cryptography takes other paths through its code each time, and
# the standard library is slow with coverage. The output of a crash is in
# bin/hostile-crashes; the program that caused it is in internal/hostile/testdata.
WATCHED = authority cell channel circuit dirclient dirserver exit flow hostile linkspec netdir netdoc simnet stream
fuzz-states: FUZZTIME ?= 1000x
fuzz-states:
	@mkdir -p bin && rm -f bin/hostile-crashes
	go test -c $(WATCHED:%=-gcflags=github.com/chivenet/chive/internal/%=-d=libfuzzer) -o bin/hostile.test ./internal/hostile
	@cd internal/hostile && for f in $$($(CURDIR)/bin/hostile.test -test.list '^Fuzz'); do \
	  echo "$$f"; CHIVE_FUZZ_CRASHES=$(CURDIR)/bin/hostile-crashes nice $(CURDIR)/bin/hostile.test -test.run '^$$' -test.fuzz "^$$f\$$" -test.fuzztime $(FUZZTIME) \
	    -test.parallel 2 -test.fuzzminimizetime 0x -test.fuzzcachedir $(CURDIR)/bin/hostile-corpus || { head -c 20000 $(CURDIR)/bin/hostile-crashes; exit 1; }; \
	done

# changelog moves changes/ into a new section of CHANGELOG.md: make changelog VERSION=v0.9.0
changelog:
	go run ./internal/tools/changelog -version '$(VERSION)'

# release makes what is offered for download, into bin/release: static binaries,
# packages, lists of their modules, and SHA256SUMS. It takes the newest version of
# CHANGELOG.md, or another one that is there: make release VERSION=v0.9.0
release:
	rm -rf bin/release
	go run ./internal/tools/release -version '$(VERSION)' -out bin/release

# package-test builds the packages for this machine twice, and looks into them; it
# also installs and uninstalls by make, and asks what make build made for its commit.
package-test:
	CHIVE_PACKAGE=1 go test -count 1 -timeout 20m -v -run '^Test(Package|Install|Stamp)$$' ./internal/tools/release
