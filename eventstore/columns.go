package eventstore

import (
	"cmp"
	"time"
)

// columns turns a batch into the 24 arguments of log.append_batch, all of them
// arrays.
func columns(batch []*member) []any {
	guards, events := 0, 0
	for _, x := range batch {
		guards, events = guards+len(x.guards), events+len(x.events)
	}
	m, g, e := roomForMembers(len(batch)), roomForGuards(guards), roomForEvents(events)
	for i, x := range batch {
		m.add(x)
		g.add(i+1, x.decision)
		e.add(i+1, x.events)
	}
	return []any{
		m.owner, m.key, m.operation, m.tool, m.hash, m.status, m.result, m.at, m.board, m.correlation, m.last,
		g.member, g.stream, g.before, g.after,
		e.member, e.id, e.stream, e.version, e.kind, e.schema, e.data, e.prev, e.hash,
	}
}

// scalars turns a single member into the 21 arguments of log.append_one.
func scalars(m *member) []any {
	g, e := roomForGuards(len(m.guards)), roomForEvents(len(m.events))
	g.add(1, m.decision)
	e.add(1, m.events)
	return []any{
		string(m.op.Owner), m.op.Key, m.id, m.op.Tool, m.op.ArgsHash[:], m.status, m.result, m.op.At, m.op.Board, m.correlation(),
		g.stream, g.before, g.after,
		e.id, e.stream, e.version, e.kind, e.schema, e.data, e.prev, e.hash,
	}
}

// correlation is what all events of the decision have as theirs.
func (d *decision) correlation() string { return cmp.Or(d.op.Correlation, d.id) }

type memberColumns struct {
	owner, key, operation, tool, status, board, correlation []string
	hash, result                                            [][]byte
	at                                                      []time.Time
	last                                                    []int32
}

func roomForMembers(n int) memberColumns {
	return memberColumns{
		owner: make([]string, 0, n), key: make([]string, 0, n), operation: make([]string, 0, n), tool: make([]string, 0, n),
		status: make([]string, 0, n), board: make([]string, 0, n), correlation: make([]string, 0, n),
		hash: make([][]byte, 0, n), result: make([][]byte, 0, n), at: make([]time.Time, 0, n), last: make([]int32, 0, n),
	}
}

func (c *memberColumns) add(m *member) {
	last := int32(len(m.events))
	if n := len(c.last); n > 0 {
		last += c.last[n-1]
	}
	c.owner = append(c.owner, string(m.op.Owner))
	c.key = append(c.key, m.op.Key)
	c.operation = append(c.operation, m.id)
	c.tool = append(c.tool, m.op.Tool)
	c.hash = append(c.hash, m.op.ArgsHash[:])
	c.status = append(c.status, m.status)
	c.result = append(c.result, m.result)
	c.at = append(c.at, m.op.At)
	c.board = append(c.board, m.op.Board)
	c.correlation = append(c.correlation, m.correlation())
	c.last = append(c.last, last)
}

type guardColumns struct {
	member, before, after []int32
	stream                []string
}

func roomForGuards(n int) guardColumns {
	return guardColumns{member: make([]int32, 0, n), before: make([]int32, 0, n), after: make([]int32, 0, n), stream: make([]string, 0, n)}
}

func (c *guardColumns) add(member int, d *decision) {
	for _, g := range d.guards {
		after := g.version
		for _, e := range d.events {
			if e.Stream == g.stream {
				after = e.Version
			}
		}
		c.member = append(c.member, int32(member))
		c.stream = append(c.stream, string(g.stream))
		c.before = append(c.before, int32(g.version))
		c.after = append(c.after, int32(after))
	}
}

type eventColumns struct {
	member, version  []int32
	schema           []int16
	id, stream, kind []string
	data, prev, hash [][]byte
}

func roomForEvents(n int) eventColumns {
	return eventColumns{
		member: make([]int32, 0, n), version: make([]int32, 0, n), schema: make([]int16, 0, n),
		id: make([]string, 0, n), stream: make([]string, 0, n), kind: make([]string, 0, n),
		data: make([][]byte, 0, n), prev: make([][]byte, 0, n), hash: make([][]byte, 0, n),
	}
}

func (c *eventColumns) add(member int, events []Recorded) {
	for _, e := range events {
		c.member = append(c.member, int32(member))
		c.id = append(c.id, e.ID)
		c.stream = append(c.stream, string(e.Stream))
		c.version = append(c.version, int32(e.Version))
		c.kind = append(c.kind, e.Type)
		c.schema = append(c.schema, int16(e.Schema))
		c.data = append(c.data, e.Data)
		c.prev = append(c.prev, notNull(e.PrevHash))
		c.hash = append(c.hash, e.Hash)
	}
}

// notNull keeps an empty value from becoming NULL.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
