//go:build !unix

package tord

import "os"

var systemSignals map[os.Signal]string
