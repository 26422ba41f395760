package projections_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"sidequest/domain"
	"sidequest/projections"
)

func TestARebuiltViewIsTheLiveOneByteForByteWhileWritesGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ann", "bob", "cat")
	for _, id := range []string{"op-ann", "op-bob"} {
		do(w, domain.System, domain.RegisterOperator{OperatorID: id, Name: "Someone", Email: id + "@example.com"})
	}
	do(w, domain.System, domain.EraseOperator{OperatorID: "op-bob"})
	for _, outcome := range []string{domain.Approved, domain.Refused} {
		conn := w.connect()
		eve := do(w, domain.AgentKey(conn), domain.ProposeAgent{Name: "Eve", Wallet: "0x00000000000000000000000000000000000000eE"})
		do(w, "operator", domain.DecideApproval{ApprovalID: eve.ApprovalID, Outcome: outcome, Grants: []string{conn}})
	}
	w.consume()
	busy, stop := context.WithCancel(t.Context())
	wrote := make(chan int)
	go func() {
		n := 0
		for ; busy.Err() == nil; n++ {
			id := w.ask("ann")
			w.bid("bob", id, "10")
			q := w.bid("cat", id, "12")
			if n%2 == 0 {
				do(w, w.agents["ann"].AgentKey, domain.PickQuote{RequestID: id, QuoteID: q})
			} else {
				do(w, w.agents["ann"].AgentKey, domain.CloseRequest{RequestID: id})
			}
		}
		wrote <- n
	}()
	for _, p := range projections.All() {
		if err := p.Rebuild(t.Context(), w.Store, func(int64, int64) {}); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if n := <-wrote; n == 0 {
		t.Fatal("nothing was written meanwhile")
	}
	w.level()
	live := map[string][]string{}
	for _, p := range projections.All() {
		live[p.Name] = w.dump(p)
	}
	for _, p := range projections.All() { // once more, from a log that stands still
		if err := p.Rebuild(t.Context(), w.Store, func(int64, int64) {}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(live[p.Name], w.dump(p)); diff != "" {
			t.Errorf("view %s comes out different (-live +rebuilt):\n%s", p.Name, diff)
		}
		if len(live[p.Name]) == 0 {
			t.Errorf("view %s is empty", p.Name)
		}
	}
	if page, err := (projections.ListQuoteRequests{Mine: true}).List(t.Context(), w.reader("ann")); err != nil || len(page.Requests) == 0 {
		t.Errorf("queries after the exchange: %d requests, %v", len(page.Requests), err)
	}
}

func TestAHundredThousandEventsAreRebuilt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ann", "bob")
	id := w.ask("ann")
	w.bid("bob", id, "10")
	fill(w, id, 100_000)
	view := &projections.Requests
	w.background(func(ctx context.Context) error { return w.Consume(ctx, view.Consumer()) })
	for w.AwaitHead(t.Context(), []string{view.Checkpoint()}) != nil {
		if t.Context().Err() != nil {
			t.Fatal("the view does not get level with the log")
		}
	}

	live := w.dump(view)
	began := time.Now()
	if err := view.Rebuild(t.Context(), w.Store, func(int64, int64) {}); err != nil {
		t.Fatal(err)
	}
	t.Logf("rebuilt a view over 100,000 events in %s", time.Since(began))
	if rebuilt := w.dump(view); len(rebuilt) < 100_000 || !slices.Equal(live, rebuilt) {
		t.Errorf("the rebuilt view has %d rows and the live one %d, or they differ", len(rebuilt), len(live))
	}
}

// fill puts copies of a request's quote event on the record, each a quote of its
// own that replaces the one before, as so many calls of submit_quote would.
func fill(w *world, id domain.RequestID, n int) {
	w.t.Helper()
	err := pgx.BeginFunc(w.t.Context(), w.Pool, func(tx pgx.Tx) error {
		for _, sql := range []string{
			`CREATE TEMP TABLE template ON COMMIT DROP AS
			 SELECT * FROM log.events WHERE type = 'quote.submitted' ORDER BY pos DESC LIMIT 1`,
			fmt.Sprintf(`
			 INSERT INTO log.events (pos, id, stream_id, version, type, schema_v, actor, board, causation, correlation, at, data, prev_hash, hash)
			 SELECT t.pos + n, t.id || '-' || n, t.stream_id, t.version + n, t.type, t.schema_v, t.actor, t.board, t.causation || '-' || n, t.correlation, t.at,
			        convert_to(replace(regexp_replace(convert_from(t.data, 'UTF8'), '"quoteId":"[^"]*"',
			          format('"quoteId":"q%%s","replaces":"%%s"', n, CASE WHEN n = 1 THEN '' ELSE 'q' || (n - 1) END)), '"replaces":""', '"note":"first"'), 'UTF8'),
			        t.hash, sha256((t.id || n)::bytea)
			 FROM template AS t, generate_series(1, %d) AS n`, n),
			fmt.Sprintf(`UPDATE log.head SET pos = pos + %d`, n),
			fmt.Sprintf(`UPDATE log.streams SET version = version + %d WHERE stream_id = '%s'`, n, domain.Requests.Stream(string(id))),
		} {
			if _, err := tx.Exec(w.t.Context(), sql); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}
