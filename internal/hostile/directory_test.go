package hostile

import "testing"

// FuzzDirectoryClient has all caches of a directory client be hostile.
func FuzzDirectoryClient(f *testing.F) {
	fuzz(f, dirOps, newDirWorld, makeDirNet)
}

// dirSeeds are answers of caches: each kind occurs, and correct ones, too.
func dirSeeds() map[string]fuzzInput {
	out := map[string]fuzzInput{}
	right := do{"answer", answerDirRight, 0, 0}
	for name, how := range map[string]do{
		"right": {"answer", answerDirRight, 0, 3}, "status": {"answer", answerDirStatus, 0, 0}, "length": {"answer", answerDirLength, 3, 0},
		"cut": {"answer", answerDirCut, 128, 0}, "flip": {"answer", answerDirFlip, 128, 0}, "endless": {"answer", answerDirEndless, 0, 0},
		"bomb-zstd": {"answer", answerDirBomb, 5, 3}, "bomb-gzip": {"answer", answerDirBomb, 4, 2}, "slow": {"answer", answerDirSlow, 0, 0},
		"never": {"answer", answerDirNever, 0, 0}, "label": {"answer", answerDirLabel, 1, 0}, "other": {"answer", answerDirOther, 0, 0},
		"heads": {"answer", answerDirHeads, 100, 0}, "repeat": {"answer", answerDirRepeat, 1, 1}, "diff": {"answer", answerDirDiff, 0, 0},
		"hang-up": {"answer", answerDirHangUp, 0, 0}, "nobody": {"answer", answerDirNobody, 0, 0}, "trickle": {"answer", answerDirTrickle, 2, 0},
		"backwards": {"answer", answerDirBackwards, 128, 0},
	} {
		out[name] = seed(dirOps, how, right, do{"wait", 2, 0, 0}, how, how, how, do{"end", 0, 0, 0}, right, how, do{"wait", 8, 0, 0}, right, do{"wait", 11, 0, 0})
	}
	return out
}
