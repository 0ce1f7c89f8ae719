package equix

// An operation of HashX.
type operation uint8

const (
	opMul operation = iota
	opUMulH
	opSMulH
	opAddShift
	opAddConst
	opSub
	opXor
	opXorConst
	opRotate
	opTarget
	opBranch
)

// instruction is one instruction of a program.
type instruction struct {
	op       operation
	dst, src uint8
	// c is the constant: the shift of AddShift and Rotate, the 32 bits of AddConst and XorConst, the mask of Branch.
	c uint32
}

// programLen is the length of every program.
const programLen = 512

// program is one hash function, with the key of its registers.
type program struct {
	code [programLen]instruction
	key  quad
}

// group names operations that count as the same when the generator avoids repetition.
type group uint8

const (
	groupNone group = iota
	groupMul
	groupUMulH
	groupSMulH
	groupAdd // AddShift and Sub
	groupAddConst
	groupXor
	groupXorConst
	groupRotate
	groupControl
)

// property is what the generator knows of an operation.
type property struct {
	group    group
	slots    int // how much of a cycle of three slots it takes
	latency  int // cycles until the result is ready
	src, dst bool
	long     bool // the upper half of a product is the result: source and destination may be the same register
}

var properties = [...]property{
	opMul:      {group: groupMul, slots: 1, latency: 3, src: true, dst: true},
	opUMulH:    {group: groupUMulH, slots: 2, latency: 4, src: true, dst: true, long: true},
	opSMulH:    {group: groupSMulH, slots: 2, latency: 4, src: true, dst: true, long: true},
	opAddShift: {group: groupAdd, slots: 1, latency: 1, src: true, dst: true},
	opAddConst: {group: groupAddConst, slots: 1, latency: 1, dst: true},
	opSub:      {group: groupAdd, slots: 1, latency: 1, src: true, dst: true},
	opXor:      {group: groupXor, slots: 1, latency: 1, src: true, dst: true},
	opXorConst: {group: groupXorConst, slots: 1, latency: 1, dst: true},
	opRotate:   {group: groupRotate, slots: 1, latency: 1, dst: true},
	opTarget:   {group: groupControl, slots: 2},
	opBranch:   {group: groupControl, slots: 2},
}
