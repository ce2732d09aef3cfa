package usetool

// MaxOpener is the size of the largest opening tag with its attributes, in bytes. It
// bounds the text that is held back for a sentence such as "<use_tool is a tag". No known
// client uses attributes.
const MaxOpener = 256

// tagEvent is the tag that a byte completes.
type tagEvent uint8

const (
	tagNothing    tagEvent = iota
	tagOpened              // <use_tool>, also with attributes
	tagSelfClosed          // <use_tool/>, also with attributes
	tagClosed              // </use_tool>
	tagArgs                // <args>
)

// tagState is the part of a tag that was seen. The tags differ in the byte after <, and
// none contains another <. So a byte that does not fit ends the attempt, a < begins the
// next one, and no byte is scanned again.
type tagState uint8

const (
	tagIdle        tagState = iota
	tagBegun                // <
	tagOpenerName           // a part of <use_tool, at least <u
	tagOpenerNamed          // all of it: the next byte decides
	tagOpenerSlash          // <use_tool/
	tagAttributes           // <use_tool and white space, and more
	tagLastSlash            // the same, the last byte being /
	tagCloserName           // a part of </use_tool>, at least </
	tagArgsName             // a part of <args>, at least <a
)

// tagMatcher finds the tags of the block grammar.
type tagMatcher struct {
	state tagState
	n     int // bytes of the tag that is begun, or was just completed
}

// opening reports whether the begun tag may become an opening one.
func (m tagMatcher) opening() bool {
	return m.state != tagIdle && m.state != tagCloserName && m.state != tagArgsName
}

// step scans one byte. Outside a block it finds opening tags only, so that nothing else is
// held back there.
func (m *tagMatcher) step(b byte, inBlock bool) tagEvent {
	if b == '<' {
		m.state, m.n = tagBegun, 1
		return tagNothing
	}
	if m.state == tagIdle {
		return tagNothing
	}
	m.n++
	var event tagEvent
	m.state, event = m.next(b, inBlock)
	if m.n == MaxOpener {
		m.state = tagIdle
	}
	return event
}

// next returns the state after byte b, which is the m.n-th of the tag, and the
// tag that it completes.
func (m *tagMatcher) next(b byte, inBlock bool) (tagState, tagEvent) {
	switch m.state {
	case tagBegun:
		switch {
		case b == blockOpener[1]:
			return tagOpenerName, tagNothing
		case b == blockCloser[1] && inBlock:
			return tagCloserName, tagNothing
		case b == argsOpener[1] && inBlock:
			return tagArgsName, tagNothing
		}
	case tagOpenerName:
		return m.spell(b, blockOpener, tagOpenerNamed, tagNothing)
	case tagCloserName:
		return m.spell(b, blockCloser, tagIdle, tagClosed)
	case tagArgsName:
		return m.spell(b, argsOpener, tagIdle, tagArgs)
	default:
		return m.attributes(b)
	}
	return tagIdle, tagNothing
}

// spell continues a tag that is spelled like word. With the last byte it returns the state
// and the event last and event.
func (m *tagMatcher) spell(b byte, word string, last tagState, event tagEvent) (tagState, tagEvent) {
	switch {
	case b != word[m.n-1]:
		return tagIdle, tagNothing
	case m.n == len(word):
		return last, event
	}
	return m.state, tagNothing
}

// attributes continues a tag after <use_tool.
func (m *tagMatcher) attributes(b byte) (tagState, tagEvent) {
	slash := m.state == tagOpenerSlash || m.state == tagLastSlash
	switch {
	case b == '>' && slash:
		return tagIdle, tagSelfClosed
	case b == '>':
		return tagIdle, tagOpened
	case m.state == tagOpenerSlash:
		return tagIdle, tagNothing
	case m.state == tagOpenerNamed && b == '/':
		return tagOpenerSlash, tagNothing
	case m.state == tagOpenerNamed && b != ' ' && b != '\t' && b != '\r' && b != '\n':
		return tagIdle, tagNothing
	case b == '/':
		return tagLastSlash, tagNothing
	}
	return tagAttributes, tagNothing
}
