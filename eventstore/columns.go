package eventstore

import (
	"cmp"

	"github.com/jackc/pgx/v5/pgtype"
)

// The statements of an append, prepared on its connection under these names.
const (
	stmtSingle = "append_single"
	stmtOne    = "append_one"
	stmtBatch  = "append_batch"
)

// appendStatements is what the statements read.
var appendStatements = map[string]string{
	stmtSingle: `
		SELECT log.append_single($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`,
	stmtOne: `
		SELECT base, outcome
		FROM log.append_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
			$14, $15, $16, $17, $18, $19, $20, $21)`,
	stmtBatch: `
		SELECT base, outcomes
		FROM log.append_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
			$14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24)`,
}

// single sets the parameters of log.append_single.
func (p *parameters) single(m *member) {
	p.receipt(m)
	p.text(string(m.guards[0].stream))
	p.int4(m.guards[0].version)
	texts(p, m.events, func(e Recorded) string { return e.ID })
	p.events(m.events)
}

// one sets the parameters of log.append_one.
func (p *parameters) one(m *member) {
	p.receipt(m)
	p.guards([]*member{m})
	texts(p, m.events, func(e Recorded) string { return e.ID })
	texts(p, m.events, func(e Recorded) string { return string(e.Stream) })
	int4s(p, m.events, func(e Recorded) int { return e.Version })
	p.events(m.events)
}

// receipt adds what goes into log.operations of a member alone.
func (p *parameters) receipt(m *member) {
	p.text(string(m.op.Owner))
	p.text(m.op.Key)
	p.text(m.id)
	p.text(m.op.Tool)
	p.bytes(m.op.ArgsHash[:])
	p.text(m.status)
	p.bytes(m.result)
	p.time(m.op.At)
	p.text(m.op.Board)
	p.text(m.correlation())
}

// batch sets the parameters of log.append_batch.
func (p *parameters) batch(batch []*member) {
	p.receipts(batch)
	owners := make([]int, 0, 4*len(batch))
	for i, m := range batch {
		for range m.guards {
			owners = append(owners, i+1)
		}
	}
	int4s(p, owners, func(i int) int { return i })
	p.guards(batch)

	owners, events := owners[:0], make([]Recorded, 0, 2*len(batch))
	for i, m := range batch {
		for range m.events {
			owners = append(owners, i+1)
		}
		events = append(events, m.events...)
	}
	int4s(p, owners, func(i int) int { return i })
	texts(p, events, func(e Recorded) string { return e.ID })
	texts(p, events, func(e Recorded) string { return string(e.Stream) })
	int4s(p, events, func(e Recorded) int { return e.Version })
	p.events(events)
}

// receipts adds what goes into log.operations, and how many events there are up
// to the last of each member.
func (p *parameters) receipts(batch []*member) {
	texts(p, batch, func(m *member) string { return string(m.op.Owner) })
	texts(p, batch, func(m *member) string { return m.op.Key })
	texts(p, batch, func(m *member) string { return m.id })
	texts(p, batch, func(m *member) string { return m.op.Tool })
	blobs(p, batch, func(m *member) []byte { return m.op.ArgsHash[:] })
	texts(p, batch, func(m *member) string { return m.status })
	blobs(p, batch, func(m *member) []byte { return m.result })
	column(p, pgtype.TimestamptzOID, batch, func(m *member) { p.timeElement(m.op.At) })
	texts(p, batch, func(m *member) string { return m.op.Board })
	texts(p, batch, func(m *member) string { return m.correlation() })
	last := 0
	int4s(p, batch, func(m *member) int {
		last += len(m.events)
		return last
	})
}

// guards adds the streams the members were decided on, with the version before and
// after.
func (p *parameters) guards(batch []*member) {
	type guarded struct {
		stream        string
		before, after int
	}
	all := make([]guarded, 0, 4*len(batch))
	for _, m := range batch {
		for _, g := range m.guards {
			all = append(all, guarded{string(g.stream), g.version, m.after(g)})
		}
	}
	texts(p, all, func(g guarded) string { return g.stream })
	int4s(p, all, func(g guarded) int { return g.before })
	int4s(p, all, func(g guarded) int { return g.after })
}

// events adds what log.append_single, append_one and append_batch have in common
// of events.
func (p *parameters) events(events []Recorded) {
	texts(p, events, func(e Recorded) string { return e.Type })
	column(p, pgtype.Int2OID, events, func(e Recorded) { p.int2Element(e.Schema) })
	blobs(p, events, func(e Recorded) []byte { return e.Data })
	blobs(p, events, func(e Recorded) []byte { return e.PrevHash })
	blobs(p, events, func(e Recorded) []byte { return e.Hash })
}

// correlation is what all events of the decision have as theirs.
func (d *decision) correlation() string { return cmp.Or(d.op.Correlation, d.id) }

// after is the version of a guarded stream once the decision is recorded.
func (d *decision) after(g guard) int {
	after := g.version
	for _, e := range d.events {
		if e.Stream == g.stream {
			after = e.Version
		}
	}
	return after
}

// inOneStream says whether the decision was made on one stream and records events
// there, which is the business of log.append_single.
func (d *decision) inOneStream() bool { return len(d.guards) == 1 && len(d.events) > 0 }
