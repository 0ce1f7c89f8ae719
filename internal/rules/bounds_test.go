package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// boundTests has, for each owner of a bound in docs/packages.md ("Bounds"), tests that fill it as
// cheaply as a peer can, and show what becomes then of somebody honest: served, or given the answer that
// the owner's comment tells. A new owner needs a row here.
var boundTests = map[string]string{
	"account": "TestEvictsTheHeaviestOfTheHeaviest TestGreedy TestSparesBusyLinksAndIdleClients",

	"relay/dos.go":  "TestDoSConnections TestDoSCircuits TestDoSTableIsFull TestListedRelayIsExempt",
	"relay/gate.go": "TestHalfOpen TestHandshakesOfOneAddress TestDialsAreBounded",

	"authority/links.go":     "TestSilentMakeRoom TestLinkCount",
	"authority/strangers.go": "TestUploadBounds TestUploaders TestVoteLeavesStrangersOut",
	"authority/reachplan.go": "TestBlackHoles TestRelayThatWentDark",

	"channel/backlog.go":    "TestBacklog TestBacklogThatStands",
	"channel/link_meter.go": "TestHandshakeBytes TestSilentHandshakesComputeNothing",
	"channel/wire.go":       "TestWireKeepsLittle TestWireAnswersLittle",

	"circuit/onionqueue.go":   "TestOnionQueueFair TestOnionQueueBound TestOnionQueuesApart",
	"circuit/circuit.go":      "TestQueueLimit TestSpliceIsBounded",
	"circuit/serverdial.go":   "TestDialsOfOneLink TestDialsOfOneAddress",
	"circuit/serverintro.go":  "TestIntroductionsThatWait TestIntroDefense",
	"circuit/closedstream.go": "TestPastStreams TestClosedStreamBound",
	"circuit/padding.go":      "TestPaddingFlood TestPaddingLimits",

	"exit/exit.go":     "TestShare TestStreamFlood",
	"exit/resolver.go": "TestCacheBound TestSilentServer",

	"stream/wanted.go":    "TestWanted",
	"stream/halfclose.go": "TestHalfCloseFlood TestIdleHalfClose",

	"dirclient/http.go":     "TestBomb TestCutAnswers",
	"dirclient/encoding.go": "TestBomb TestBombOfManyStreams",
	"netdoc/consdiff.go":    "TestDiffCommandsBound TestDiffSizeBound",

	"dirserver/room.go":    "TestShares TestOneAddress",
	"dirserver/pace.go":    "TestSlowPeers TestToil",
	"dirserver/begins.go":  "TestBeginsOfOneCircuit TestBeginsEnd",
	"dirserver/hsdir.go":   "TestHSDirIsBounded TestHSDirIsEvicted TestHSDirOncePerCircuit TestHSDirAnswerCounts",
	"dirserver/hsorder.go": "TestHSDirOneUploader TestHSDirManyUploaders",
	"client/caches.go":     "TestRequestsOfOneCircuit",

	"hsservice/queue.go":    "TestQueueBound TestQueueTurns TestIntroductionsUnderFlood",
	"hsservice/work.go":     "TestWorkUnderFlood TestWorkOrder",
	"hsservice/places.go":   "TestPlaces TestStrangePlaces TestWorkedPlaces",
	"hsservice/replay.go":   "TestFullReplays TestCookies",
	"hspow/spent.go":        "TestSpentMakesRoom TestSpentKeepsExpensive",
	"hsservice/streams.go":  "TestOneClientLeavesRoom",
	"hsservice/backlog.go":  "TestBacklog TestBacklogOfOneClient",
	"hsservice/points.go":   "TestLaunchBudget",
	"hsservice/kemkeys.go":  "TestKEMKeys",
	"hsservice/frontend.go": "TestFrontendHostileBackend",
	"hsservice/fleet.go":    "TestFleetFull TestFleetBadDirectories",
	"hsfleet/item.go":       "TestItemRefused",

	"hsclient/fetch.go":     "TestDescriptorsAreCounted TestEachDirectoryOnce",
	"hsclient/history.go":   "TestHistoriesAreBounded",
	"hsclient/race.go":      "TestIntroductionsAreFew",
	"hsclient/elsewhere.go": "TestElsewhere TestElsewhereInVain",
	"hsclient/serial.go":    "TestSerialHasBounds",
	"hsclient/turns.go":     "TestMadeUpServices TestTurnsOfAll",
	"hsclient/workers.go":   "TestHostileProofsHoldUpNoOther TestLargeProofHasItsTurn",

	"control/control.go":     "TestStrangersMakeRoom TestFull TestLongCommand TestSilentStranger TestUnreadReply",
	"control/events.go":      "TestUnreadEvents",
	"control/rulesevents.go": "TestOwnedBound TestFetchedBound",
	"control/onion.go":       "TestMaxOnions TestMaxOnionPorts",
	"control/oniondesc.go":   "TestDescriptorCommands",
	"control/steer.go":       "TestSteeringBounds",
	"hsclient/command.go":    "TestMaxCommands",
	"tord/onionclients.go":   "TestMaxOnionKeys",

	"client/steer.go":      "TestSteeredBound",
	"client/streamlife.go": "TestAttachTimeout",
	"client/mapping.go":    "TestMapAddresses",

	"socks/room.go":      "TestSilentMakeRoom TestQuietMakeRoom TestQuietOnes TestConnectionLimit",
	"socks/lookups.go":   "TestLookupsMakeRoom",
	"socks/ration.go":    "TestFailuresAreRationed",
	"socks/virtual.go":   "TestVirtualBound TestVirtualAddressesRest",
	"site/crowd.go":      "TestSlowReaders TestOneClient",
	"site/server.go":     "TestHeaderTime",
	"site/list.go":       "TestListsOnce TestListersWait TestListIsBounded",
	"localhttp/crowd.go": "TestCrowd",
	"page/hub.go":        "TestReadersAreBounded TestSlowReader TestManyEvents",

	"userstack/stack_linux.go": "TestBound",

	"localhttp/server.go": "TestServerBounds",
	"builtin/inside.go":   "TestInsideSilent",
	"relay/inside.go":     "TestInsideMemory",
	"fte/crowd.go":        "TestCrowd TestOneAddressCantFillHandshakes TestOneAddressCantFillConnections",
}

// TestBounds: each owner of a bound has tests, and each of these tests exists in the owner's package.
func TestBounds(t *testing.T) {
	page, err := os.ReadFile("docs/packages.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begun := strings.Cut(string(page), "\n| bound | owner |\n|---|---|\n")
	table, _, ended := strings.Cut(rest, "\n\n")
	if !begun || !ended {
		t.Fatal("docs/packages.md has no table of bounds")
	}
	owner := regexp.MustCompile("`((?:[a-z]+/[a-z_0-9]+\\.go)|account)`")
	left := map[string]bool{}
	for name := range boundTests {
		left[name] = true
	}
	for row := range strings.SplitSeq(table, "\n") {
		owners := owner.FindAllStringSubmatch(row, -1)
		if len(owners) == 0 {
			t.Errorf("no file owns: %s", row)
		}
		for _, o := range owners {
			delete(left, o[1])
			tests := strings.Fields(boundTests[o[1]])
			if len(tests) == 0 {
				t.Errorf("no test fills the bound of %s: %s", o[1], row)
			}
			for _, name := range tests {
				if !hasTest(t, o[1], name) {
					t.Errorf("%s: there is no %s", o[1], name)
				}
			}
		}
	}
	for name := range left {
		t.Errorf("%s has tests, and is not in the table of docs/packages.md", name)
	}
}

// hasTest reports whether a package has a test.
func hasTest(t *testing.T, owner, name string) bool {
	t.Helper()
	dir := owner
	if strings.HasSuffix(owner, ".go") {
		dir = filepath.Dir(owner)
	}
	if dir != "fte" {
		dir = "internal/" + dir
	}
	if _, err := os.Stat(dir + "/" + filepath.Base(owner)); strings.HasSuffix(owner, ".go") && err != nil {
		t.Error(err)
	}
	files, err := filepath.Glob(dir + "/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}
