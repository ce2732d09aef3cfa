package gateway

// inTurnFrom is the size from which requests take turns on the processors, in bytes.
const inTurnFrom = 64 << 10

// compute runs f, which works on so many bytes of a request and waits for nothing. Large
// requests are served in the order of their arrival, as many at once as there are
// processors: side by side all of many would be ready at the end, in turn half of them are
// in half the time.
func (g *Gateway) compute(size int, f func()) {
	if size >= inTurnFrom {
		g.processors <- struct{}{} // those before it take milliseconds each
		defer func() { <-g.processors }()
	}
	f()
}
