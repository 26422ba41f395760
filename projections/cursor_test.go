package projections_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"testing"

	"sidequest/domain"
	"sidequest/projections"
)

func testCursors() (projections.Cursors, projections.FeedID) {
	return projections.Cursors{
		Network: "test", Keys: map[byte][]byte{1: bytes.Repeat([]byte{1}, 32), 2: bytes.Repeat([]byte{2}, 32)}, Current: 2,
	}, projections.FeedID{Board: "main", Feed: projections.FeedInbox, Audience: "ag_ann"}
}

func TestACursorTellsNobodyWhereItIs(t *testing.T) {
	t.Parallel()
	c, feed := testCursors()
	const pos = 0x0102030405060708
	cursor := c.Encode(feed, 1, projections.Place{Pos: pos, Ord: 9})
	if cursor != c.Encode(feed, 1, projections.Place{Pos: pos, Ord: 9}) || len(cursor) != 41 {
		t.Errorf("%s is not the one cursor of its place, of 41 characters", cursor)
	}
	for _, s := range []string{cursor, c.EncodePage("list", pos)} {
		raw, err := base64.RawURLEncoding.DecodeString(s[3:])
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(raw, binary.BigEndian.AppendUint64(nil, pos)) || bytes.Contains(raw, []byte{5, 6, 7, 8}) {
			t.Errorf("%s shows its position", s)
		}
	}
	if epoch, p, err := c.Decode(feed, cursor); err != nil || epoch != 1 || p != (projections.Place{Pos: pos, Ord: 9}) {
		t.Errorf("read back: %d %v, %v", epoch, p, err)
	}
}

func TestACursorIsReadOnlyWhereItBelongsAndOnlyWhole(t *testing.T) {
	t.Parallel()
	c, feed := testCursors()
	cursor := c.Encode(feed, 1, projections.Place{Pos: 7})
	other := feed
	other.Audience = "ag_bob"
	elsewhere := c
	elsewhere.Network = "main"
	older := c
	older.Current = 1
	for name, tt := range map[string]struct {
		c      projections.Cursors
		feed   projections.FeedID
		cursor string
	}{
		"another audience":     {c, other, cursor},
		"another deployment":   {elsewhere, feed, cursor},
		"a line break":         {c, feed, cursor + "\n"},
		"a line break inside":  {c, feed, cursor[:20] + "\n" + cursor[20:]},
		"a page cursor":        {c, feed, c.EncodePage("list", 7)},
		"a letter more":        {c, feed, cursor + "A"},
		"another kind of list": {c, feed, strings.Replace(cursor, "c1.", "p1.", 1)},
	} {
		if _, _, err := tt.c.Decode(tt.feed, tt.cursor); domain.CodeOf(err) != "invalid" {
			t.Errorf("%s: %v, want invalid", name, err)
		}
	}
	for i := range cursor {
		flipped := []byte(cursor)
		if flipped[i] == 'A' {
			flipped[i] = 'B'
		} else {
			flipped[i] = 'A'
		}
		if _, _, err := c.Decode(feed, string(flipped)); err == nil {
			t.Errorf("a cursor with another letter at %d is read", i)
		}
	}
	if _, _, err := c.Decode(feed, older.Encode(feed, 1, projections.Place{Pos: 7})); err != nil {
		t.Errorf("a cursor of an older key: %v", err)
	}
}
