//go:build !amd64 && !arm64

package layer

// haveKernel is false: the standard library's AES and the portable POLYVAL do
// the work, and the kernel's functions are never called.
const haveKernel = false

const noKernel = "layer: no kernel on this platform"

func polyDot(_, _, _ *gf128)                           { panic(noKernel) }
func polyPowers(*[4]gf128)                             { panic(noKernel) }
func polyGroups(_ *gf128, _ *[4]gf128, _ *byte, _ int) { panic(noKernel) }
func aesExpand(*roundKeys, *[16]byte)                  { panic(noKernel) }
func aesInvert(_, _ *roundKeys)                        { panic(noKernel) }
func aesEncrypt(*roundKeys, *[16]byte)                 { panic(noKernel) }
func aesDecrypt(*roundKeys, *[16]byte)                 { panic(noKernel) }
func aesCounter8(*roundKeys, *[16]byte, *byte, int)    { panic(noKernel) }
