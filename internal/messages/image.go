package messages

import (
	"fmt"
	"slices"
)

// imagePlace is the place of an image in the conversation and in the body.
type imagePlace struct {
	message, part int        // the index of the message in the conversation, and of the image's part in the message
	place         blockPlace // in the body
}

// blockPlace is the place of a block in the body.
type blockPlace struct {
	message, block int // the indexes of the message, and of the block in it
	innerBlock     int // if the block is a tool_result: the image's index in the content of the block; otherwise -1
}

// path returns the path of the field with the URL of the image at this place.
func (p blockPlace) path() string {
	path := fmt.Sprintf("messages[%d].content[%d]", p.message, p.block)
	if p.innerBlock >= 0 {
		path += fmt.Sprintf(".content[%d]", p.innerBlock)
	}
	return path + ".source.url"
}

// ImageParam returns the path of the first field with a remote image at url, or "" if there is
// none. If url is empty, a remote image at any URL counts.
func (r *Request) ImageParam(url string) string {
	m, p, found := r.FindRemote(url)
	if !found {
		return ""
	}
	at := slices.IndexFunc(r.images, func(i imagePlace) bool { return i.message == m && i.part == p })
	if at < 0 {
		return "messages"
	}
	return r.images[at].place.path()
}
