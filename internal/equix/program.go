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
	long    bool // a multiplication whose upper half is the result: source and destination may be the same
}

var properties = [...]property{
	opMul:      {group: groupMul, ports: [2]uint8{port1}, latency: 3, src: true, dst: true},
	opUMulH:    {group: groupUMulH, ports: [2]uint8{port1, port5}, latency: 4, src: true, dst: true, long: true},
	opSMulH:    {group: groupSMulH, ports: [2]uint8{port1, port5}, latency: 4, src: true, dst: true, long: true},
	opAddShift: {group: groupAdd, ports: [2]uint8{port0 | port1}, latency: 1, src: true, dst: true},
	opAddConst: {group: groupAddConst, ports: [2]uint8{port0 | port1 | port5}, latency: 1, dst: true},
	opSub:      {group: groupAdd, ports: [2]uint8{port0 | port1 | port5}, latency: 1, src: true, dst: true},
	opXor:      {group: groupXor, ports: [2]uint8{port0 | port1 | port5}, latency: 1, src: true, dst: true},
	opXorConst: {group: groupXorConst, ports: [2]uint8{port0 | port1 | port5}, latency: 1, dst: true},
	opRotate:   {group: groupRotate, ports: [2]uint8{port0 | port5}, latency: 1, dst: true},
	opTarget:   {group: groupControl, ports: [2]uint8{port0 | port1 | port5, port0 | port1 | port5}, latency: 1},
	opBranch:   {group: groupControl, ports: [2]uint8{port0 | port1 | port5, port0 | port1 | port5}, latency: 1},
}
