package protover

// All has the versions that the program supports in any of its roles, the same for each role,
// as in C tor: what a network requires of a client, for example, may be what only relays do
// here, and then the client does without it.
const All = "ChivePQ=1-3,8 ChiveStream=1 Conflux=1 Cons=1-2 Desc=1-4 DirCache=2 FlowCtrl=1-2 HSDir=2 HSIntro=4-5 HSRend=2 Link=4-5 LinkAuth=3 Microdesc=1-3 Padding=2 Relay=2-6"
