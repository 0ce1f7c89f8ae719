package labpage_test

import "github.com/chromedp/cdproto/runtime"

// awaits has an evaluation wait for a promise.
func awaits(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
