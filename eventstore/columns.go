package eventstore

import "time"

// columns turns a batch into the 25 parallel arrays of log.append_batch.
func columns(batch []*member) []any {
	var m memberColumns
	var g guardColumns
	var e eventColumns
	for i, x := range batch {
		m.add(x)
		for _, guard := range x.guards {
			g.add(i+1, guard)
		}
		for _, event := range x.events {
			e.add(i+1, event)
		}
	}
	return []any{
		m.owner, m.key, m.operation, m.tool, m.hash, m.status, m.result, m.at,
		g.member, g.stream, g.version,
		e.member, e.id, e.stream, e.version, e.kind, e.schema, e.actor, e.board, e.causation, e.correlation, e.at,
		e.data, e.prev, e.hash,
	}
}

type memberColumns struct {
	owner, key, operation, tool, status []string
	hash, result                        [][]byte
	at                                  []time.Time
}

func (c *memberColumns) add(m *member) {
	c.owner = append(c.owner, string(m.op.Owner))
	c.key = append(c.key, m.op.Key)
	c.operation = append(c.operation, m.op.ID())
	c.tool = append(c.tool, m.op.Tool)
	c.hash = append(c.hash, m.op.ArgsHash[:])
	c.status = append(c.status, m.status)
	c.result = append(c.result, m.result)
	c.at = append(c.at, m.op.At)
}

type guardColumns struct {
	member, version []int32
	stream          []string
}

func (c *guardColumns) add(member int, g guard) {
	c.member = append(c.member, int32(member))
	c.stream = append(c.stream, string(g.stream))
	c.version = append(c.version, int32(g.version))
}

type eventColumns struct {
	member, version                                        []int32
	schema                                                 []int16
	id, stream, kind, actor, board, causation, correlation []string
	at                                                     []time.Time
	data, prev, hash                                       [][]byte
}

func (c *eventColumns) add(member int, e Recorded) {
	c.member = append(c.member, int32(member))
	c.id = append(c.id, e.ID)
	c.stream = append(c.stream, string(e.Stream))
	c.version = append(c.version, int32(e.Version))
	c.kind = append(c.kind, e.Type)
	c.schema = append(c.schema, int16(e.Schema))
	c.actor = append(c.actor, string(e.Actor))
	c.board = append(c.board, e.Board)
	c.causation = append(c.causation, e.Causation)
	c.correlation = append(c.correlation, e.Correlation)
	c.at = append(c.at, e.At)
	c.data = append(c.data, e.Data)
	c.prev = append(c.prev, notNull(e.PrevHash))
	c.hash = append(c.hash, e.Hash)
}

// notNull keeps the empty hash from becoming NULL.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
