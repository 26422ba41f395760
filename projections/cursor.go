package projections

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"sidequest/domain"
)

// A Place is a point in the order of all feed rows: behind the ord-th notice of
// the event at a position.
type Place struct {
	Pos int64
	Ord int
}

// Less says whether p is before q.
func (p Place) Less(q Place) bool { return p.Pos < q.Pos || p.Pos == q.Pos && p.Ord < q.Ord }

// endOf is behind every notice of a position.
func endOf(pos int64) Place { return Place{pos, 1<<16 - 1} }

// Cursors makes and reads the opaque places that clients keep. Its key keeps a
// cursor that is mangled, or of another feed, from being misread, and what it says
// from being read at all. Equal places give equal cursors, in every process.
type Cursors struct {
	Network string          // of the deployment, so that no cursor works in another
	Keys    map[byte][]byte // by key id, each at least 32 random bytes; old ones still read
	Current byte            // the key that new cursors use
}

const (
	cursorPrefix = "c1."
	pagePrefix   = "p1."
	tagSize      = 12
)

// errCursor is what every cursor that is not ours gets.
func errCursor() *domain.Error {
	return domain.Refuse(domain.Invalid, "this is not a cursor of this list; use one exactly as it was returned, or leave it out").At("/cursor")
}

// Encode returns the cursor of a place in a feed. Layout: version, key id,
// epoch (4 bytes), position (8), ord (2), tag (12), in base64url.
func (c Cursors) Encode(f FeedID, epoch int, p Place) string {
	body := []byte{1, c.Current}
	body = binary.BigEndian.AppendUint32(body, uint32(epoch))
	body = binary.BigEndian.AppendUint64(body, uint64(p.Pos))
	body = binary.BigEndian.AppendUint16(body, uint16(p.Ord))
	return cursorPrefix + c.seal(body, f.bind())
}

// Decode reads a cursor of the feed.
func (c Cursors) Decode(f FeedID, s string) (epoch int, p Place, err error) {
	body, err := c.open(s, cursorPrefix, f.bind())
	if err != nil || len(body) != 16 || body[0] != 1 {
		return 0, Place{}, errCursor()
	}
	p.Pos = int64(binary.BigEndian.Uint64(body[6:]))
	p.Ord = int(binary.BigEndian.Uint16(body[14:]))
	return int(binary.BigEndian.Uint32(body[2:])), p, nil
}

// EncodePage returns the cursor of a list that is ordered by position. list
// names it and whatever it is bound to.
func (c Cursors) EncodePage(list string, pos int64) string {
	body := binary.BigEndian.AppendUint64([]byte{1, c.Current}, uint64(pos))
	return pagePrefix + c.seal(body, list)
}

// DecodePage reads a cursor of the list.
func (c Cursors) DecodePage(list, s string) (int64, error) {
	body, err := c.open(s, pagePrefix, list)
	if err != nil || len(body) != 10 || body[0] != 1 {
		return 0, errCursor()
	}
	return int64(binary.BigEndian.Uint64(body[2:])), nil
}

// seal returns version and key id in clear, the rest hidden, and the tag. Positions
// tell strangers how much is going on, so they are nobody's to read. What hides
// them follows from the tag, so that equal places still give equal cursors.
func (c Cursors) seal(body []byte, bound string) string {
	tag := c.tag(body, bound)
	return base64.RawURLEncoding.EncodeToString(append(c.hide(body, tag), tag...))
}

func (c Cursors) open(s, prefix, bound string) ([]byte, error) {
	encoded, ours := strings.CutPrefix(s, prefix)
	if !ours || strings.ContainsAny(encoded, "\r\n") { // which the decoder would skip
		return nil, errCursor()
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(raw) < 2+tagSize || c.Keys[raw[1]] == nil {
		return nil, errCursor()
	}
	hidden, tag := raw[:len(raw)-tagSize], raw[len(raw)-tagSize:]
	body := c.hide(hidden, tag)
	if !hmac.Equal(tag, c.tag(body, bound)) {
		return nil, errCursor()
	}
	return body, nil
}

// hide covers all but version and key id with a mask, or uncovers it again.
func (c Cursors) hide(body, tag []byte) []byte {
	h := hmac.New(sha256.New, c.Keys[body[1]])
	fmt.Fprintf(h, "mask|%x", tag)
	mask := h.Sum(nil)
	out := slices.Clone(body)
	for i := 2; i < len(out) && i-2 < len(mask); i++ {
		out[i] ^= mask[i-2]
	}
	return out
}

func (c Cursors) tag(body []byte, bound string) []byte {
	h := hmac.New(sha256.New, c.Keys[body[1]])
	fmt.Fprintf(h, "%x|%d:%s|%d:%s", body, len(c.Network), c.Network, len(bound), bound)
	return h.Sum(nil)[:tagSize]
}
