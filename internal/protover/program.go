package protover

// All has the versions that the program supports in any of its roles: a relay that serves the
// directory advertises them all. A network judges every role by this one list, as C tor does.
// It may require of clients what only relays do here; a client then does without it.
const All = "ChivePQ=1-3,8 ChiveStream=1 Conflux=1 Cons=1-2 Desc=1-4 DirCache=2 FlowCtrl=1-2 HSDir=2 HSIntro=4-5 HSRend=2 Link=4-5 LinkAuth=3 Microdesc=1-3 Padding=2 Relay=2-6"
