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

// The size of every program, and how many cycles of the modelled processor may decode it.
const (
	programLen = 512
	cycles     = 192
	// resultCycle is the cycle in which the last register of a usable program becomes ready.
	resultCycle = 194
)

// program is one hash function, with the key of its registers.
type program struct {
	code [programLen]instruction
	key  quad
}

// Ports of the modelled processor, each a bit. The lowest bit is the port that a part takes first.
const (
	port5 = 1 << iota
	port0
	port1
)

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
	group   group
	ports   [2]uint8 // the ports that each part may take; 0: there is no second part
	latency int      // cycles until the result is ready
	src     bool
	dst     bool
}

var properties = [...]property{
	opMul:      {groupMul, [2]uint8{port1}, 3, true, true},
	opUMulH:    {groupUMulH, [2]uint8{port1, port5}, 4, true, true},
	opSMulH:    {groupSMulH, [2]uint8{port1, port5}, 4, true, true},
	opAddShift: {groupAdd, [2]uint8{port0 | port1}, 1, true, true},
	opAddConst: {groupAddConst, [2]uint8{port0 | port1 | port5}, 1, false, true},
	opSub:      {groupAdd, [2]uint8{port0 | port1 | port5}, 1, true, true},
	opXor:      {groupXor, [2]uint8{port0 | port1 | port5}, 1, true, true},
	opXorConst: {groupXorConst, [2]uint8{port0 | port1 | port5}, 1, false, true},
	opRotate:   {groupRotate, [2]uint8{port0 | port5}, 1, false, true},
	opTarget:   {groupControl, [2]uint8{port0 | port1 | port5, port0 | port1 | port5}, 1, false, false},
	opBranch:   {groupControl, [2]uint8{port0 | port1 | port5, port0 | port1 | port5}, 1, false, false},
}
