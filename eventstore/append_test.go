package eventstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"sidequest/domain"
	"sidequest/eventstore/eventstoretest"
)

// A member that is alone takes another way to the log than one among others. What
// becomes of it must not depend on that.
func TestASingleAppendAndABatchHaveTheSameOutcomes(t *testing.T) {
	t.Parallel()
	for _, company := range []int{0, 1, 40} {
		t.Run(fmt.Sprintf("%d others", company), func(t *testing.T) {
			t.Parallel()
			url := eventstoretest.NewDB(t).URL
			conn, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.WithoutCancel(t.Context()))
			b := newBatcher(url, nil, slog.New(slog.DiscardHandler))
			defer b.lanes[0].hangUp()
			a := appends{t: t, batcher: b, company: company}

			first := note("k1", "s", 0, "one", "two")
			a.want(first, nil)
			if first.events[0].Position+1 != first.events[1].Position {
				t.Errorf("positions %d and %d, want neighbours", first.events[0].Position, first.events[1].Position)
			}
			a.want(note("k1", "s", 2, "again"), errKnown)
			a.want(note("k2", "s", 1, "too late"), errMoved)
			a.want(note("k3", "new", 1, "too early"), errMoved)
			a.want(note("k3", "s", 2, "three"), nil)
			a.want(note("k4", "s", 3), nil) // a receipt without events
			a.want(note("k4", "s", 3), errKnown)
			a.want(note("k4", "s", 3, "with an event by now"), errKnown)
			a.checkLog(conn)
		})
	}
}

// appends sends members to the log, each in the company of others.
type appends struct {
	t       *testing.T
	batcher *batcher
	company int
	others  int // so far
	sent    []*member
}

// want appends m, half of the others before it and half after it.
func (a *appends) want(m *member, want error) {
	a.t.Helper()
	var batch []*member
	for i := range a.company + 1 {
		if i == a.company/2 {
			batch = append(batch, m)
			continue
		}
		a.others++
		batch = append(batch, note(fmt.Sprint("other", a.others), fmt.Sprint("other", a.others), 0, "beside"))
	}
	outcomes, err := a.batcher.lanes[0].send(a.t.Context(), batch)
	if err != nil {
		a.t.Fatal(err)
	}
	for i, o := range outcomes {
		if batch[i] == m && !errors.Is(o.err, want) || batch[i] != m && o.err != nil {
			a.t.Errorf("%s: %v, want %v of %s and nothing of others", batch[i].op.Key, o.err, want, m.op.Key)
		}
		if o.err == nil {
			a.sent = append(a.sent, batch[i])
		}
	}
}

// checkLog compares the log with what was recorded.
func (a *appends) checkLog(conn *pgx.Conn) {
	a.t.Helper()
	want := map[string]int64{}
	pos, receipts := int64(0), map[string]int64{}
	for _, m := range a.sent {
		receipts[m.op.Key] = 0
		for _, e := range m.events {
			pos++
			want[string(e.Data)+e.ID], receipts[m.op.Key] = pos, pos
			if e.Position != pos {
				a.t.Errorf("an event of %s believes that it is at %d, want %d", m.op.Key, e.Position, pos)
			}
		}
	}
	a.compare(conn, `SELECT convert_from(data, 'UTF8') || id, pos FROM log.events`, want)
	a.compare(conn, `SELECT op_key, last_pos FROM log.operations`, receipts)
	a.compare(conn, `SELECT 'head', pos FROM log.head`, map[string]int64{"head": pos})
	a.compare(conn, `
		SELECT 'streams that do not stand where their events say', count(*)
		FROM log.streams AS s
		WHERE s.version <> (SELECT max(e.version) FROM log.events AS e WHERE e.stream_id = s.stream_id)`,
		map[string]int64{"streams that do not stand where their events say": 0})
}

func (a *appends) compare(conn *pgx.Conn, sql string, want map[string]int64) {
	a.t.Helper()
	rows, err := conn.Query(a.t.Context(), sql)
	if err != nil {
		a.t.Fatal(err)
	}
	got := map[string]int64{}
	var key string
	var pos int64
	if _, err := pgx.ForEachRow(rows, []any{&key, &pos}, func() error { got[key] = pos; return nil }); err != nil {
		a.t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		a.t.Errorf("%s differs (-want +got):\n%s", sql, diff)
	}
}

// note makes a member that adds texts to a stream of a version.
func note(key, stream string, version int, texts ...string) *member {
	d := &decision{
		op:     Operation{Owner: "ann", Key: key, Tool: "note", At: time.Now().UTC().Truncate(time.Microsecond)},
		status: confirmed, result: []byte(`{}`),
	}
	d.id = d.op.ID()
	s := domain.Stream("note-" + stream)
	h := head{version, nil}
	d.guards = []guard{{s, version}}
	for i, text := range texts {
		e, err := compose(d.op, i, domain.Fact{Stream: s, Event: noted(text)}, h)
		if err != nil {
			panic(err)
		}
		h = head{e.Version, e.Hash}
		d.events = append(d.events, e)
	}
	return &member{d, make(chan outcome, 1)}
}

type noted string

func (noted) EventType() string { return "note.noted" }
