package cell

import "testing"

var (
	sinkInt int
	sinkErr error
)

func BenchmarkFixedCellEncode(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(Len)
	buf, body := make([]byte, 0, Len), make([]byte, PayloadLen)
	for b.Loop() {
		buf = AppendFixed(buf[:0], 0x80000007, CmdRelay, body)
	}
}

// decodeFixed reads what a channel's reader reads of every cell.
func decodeFixed(c []byte) int {
	return Size(c) + int(CircID(c)) + int(Cmd(c)) + int(Payload(c)[PayloadLen-1])
}

func BenchmarkFixedCellDecode(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(Len)
	c := AppendFixed(nil, 0x80000007, CmdRelay, make([]byte, PayloadLen))
	for b.Loop() {
		sinkInt += decodeFixed(c)
	}
}

func benchFormats(b *testing.B, f func(b *testing.B, format RelayFormat)) {
	for _, format := range []RelayFormat{RelayV0, RelayV1} {
		b.Run(format.String(), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(format.MaxData(true)))
			f(b, format)
		})
	}
}

func BenchmarkRelayCellEncode(b *testing.B) {
	benchFormats(b, func(b *testing.B, format RelayFormat) {
		var p [PayloadLen]byte
		data := make([]byte, format.MaxData(true))
		for b.Loop() {
			n := copy(p[format.DataOffset(RelayData):], data)
			sinkErr = format.PutHeader(&p, RelayData, 7, n)
		}
	})
}

func BenchmarkRelayCellDecode(b *testing.B) {
	benchFormats(b, func(b *testing.B, format RelayFormat) {
		var p [PayloadLen]byte
		sinkErr = format.PutHeader(&p, RelayData, 7, format.MaxData(true))
		for b.Loop() {
			var m RelayMsg
			m, sinkErr = format.Parse(&p)
			sinkInt += len(m.Data)
		}
	})
}

func BenchmarkCellEncodeParallel(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(Len)
	b.RunParallel(func(pb *testing.PB) {
		buf, body := make([]byte, 0, Len), make([]byte, PayloadLen)
		for pb.Next() {
			buf = AppendFixed(buf[:0], 0x80000007, CmdRelay, body)
		}
	})
}

func BenchmarkCellDecodeParallel(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(Len)
	b.RunParallel(func(pb *testing.PB) {
		c := AppendFixed(nil, 0x80000007, CmdRelay, make([]byte, PayloadLen))
		sum := 0
		for pb.Next() {
			sum += decodeFixed(c)
		}
		if sum == 1 {
			b.Error("the sum keeps the work alive")
		}
	})
}
