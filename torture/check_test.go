package torture

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/postgres"
	"sidequest/projections"
	"sidequest/secret"
)

// check looks at the whole history once no agent writes any more, and notes all
// that does not fit.
func (f *field) check() {
	f.levels()
	f.logIsWhole()
	f.operationsAreWhole()
	f.everyDeedIsDoneOnce()
	f.everyRepeatIsAnsweredTheSame(10)
	f.hashesChain()
	f.viewsAreFoldsOfTheLog()
	f.tailsSawTheLog()
	f.copyIsTheLog()
	f.listenersHeardTheFeed()
}

// levels waits until every follower stands at the head.
func (f *field) levels() {
	ok := eventually(patience, func() bool {
		behind, err := query[int64](f, `
			SELECT max(h.pos - c.pos)
			FROM log.checkpoints AS c, log.head AS h
			WHERE c.name NOT LIKE '%\_next/%'`)
		return err == nil && len(behind) == 1 && behind[0] == 0
	})
	if !ok {
		f.violatef("the views do not come level with the log")
	}
}

// none notes every row that a query finds.
func (f *field) none(what, sql string) {
	found, err := query[string](f, sql)
	if err != nil {
		f.violatef("cannot check: %s: %v", what, err)
	}
	if len(found) > 0 {
		f.violatef("%s: %d, such as %s", what, len(found), strings.Join(found[:min(3, len(found))], ", "))
	}
}

// logIsWhole checks positions and versions.
func (f *field) logIsWhole() {
	f.none("positions with a gap, or a head that is not the last of them", `
		SELECT format('%s events, the last %s, the head %s', count(e.pos), coalesce(max(e.pos), 0), h.pos)
		FROM log.head AS h
		LEFT JOIN log.events AS e ON true
		GROUP BY h.pos
		HAVING count(e.pos) <> h.pos OR coalesce(max(e.pos), 0) <> h.pos`)
	f.none("streams whose versions are not contiguous", `
		SELECT s.stream_id
		FROM log.streams AS s
		LEFT JOIN log.events AS e USING (stream_id)
		GROUP BY s.stream_id, s.version, s.first_pos
		HAVING count(e.pos) <> s.version OR max(e.version) <> s.version OR min(e.version) <> 1 OR min(e.pos) < s.first_pos`)
	f.none("events of no stream", `
		SELECT e.id
		FROM log.events AS e
		LEFT JOIN log.streams AS s USING (stream_id)
		WHERE s.stream_id IS NULL`)
	f.none("versions out of order", `
		SELECT id
		FROM (
			SELECT id, version, row_number() OVER (PARTITION BY stream_id ORDER BY pos) AS nth
			FROM log.events) AS e
		WHERE version <> nth`)
	f.none("dead letters", `SELECT name || ' ' || pos FROM log.dead_letters`)
}

// operationsAreWhole checks that no operation half exists.
func (f *field) operationsAreWhole() {
	f.none("events without a receipt", `
		SELECT e.id
		FROM log.events AS e
		LEFT JOIN log.operations AS o ON o.operation_id = e.causation
		WHERE o.operation_id IS NULL`)
	f.none("receipts whose events are not there", `
		SELECT o.operation_id
		FROM log.operations AS o
		LEFT JOIN log.events AS e ON e.causation = o.operation_id
		GROUP BY o.operation_id, o.last_pos
		HAVING coalesce(max(e.pos), 0) <> o.last_pos`)
	f.none("operations whose events are not side by side", `
		SELECT causation
		FROM log.events
		GROUP BY causation
		HAVING max(pos) - min(pos) + 1 <> count(*)`)
}

// everyDeedIsDoneOnce compares what was answered with the receipts.
func (f *field) everyDeedIsDoneOnce() {
	var agents []string
	for _, a := range f.agents {
		agents = append(agents, string(a.key))
	}
	lines, err := query[string](f, `
		SELECT operation_id || ' ' || status || ' ' || convert_from(result, 'UTF8')
		FROM log.operations
		WHERE owner = ANY ($1)`, agents)
	if err != nil {
		f.violatef("cannot read the receipts: %v", err)
		return
	}
	receipts := map[string]string{}
	for _, line := range lines {
		id, rest, _ := strings.Cut(line, " ")
		receipts[id] = rest
	}
	deeds := f.history()
	if len(receipts) != len(deeds) {
		f.violatef("%d operations were answered and %d are on record", len(deeds), len(receipts))
	}
	for _, d := range deeds {
		id := domain.DeriveID("op", string(d.by.key), d.args["operationKey"].(string))
		status, result, _ := strings.Cut(receipts[id], " ")
		switch {
		case d.answer.OK && (status != "confirmed" || !sameJSON(result, string(d.answer.Result)) || d.answer.OperationID != id):
			f.violatef("%s %s was answered %s and is on record as %s", d.tool, id, d.answer.raw, receipts[id])
		case !d.answer.OK && status != "refused":
			f.violatef("%s %s was refused with %s and is on record as %s", d.tool, id, d.answer.raw, receipts[id])
		}
	}
}

func (f *field) history() []deed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.deeds)
}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && cmp.Equal(x, y)
}

// everyRepeatIsAnsweredTheSame repeats some writes, the newest among them.
func (f *field) everyRepeatIsAnsweredTheSame(n int) {
	deeds := f.history()
	for i := range min(n, len(deeds)) {
		d := deeds[len(deeds)-1-i]
		if i%2 == 1 {
			d = deeds[f.chance.IntN(len(deeds))]
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		again, err := f.insist(ctx, d.by, d.tool, d.args)
		cancel()
		if err != nil || again.raw != d.answer.raw {
			f.violatef("%s was answered %s, and when repeated %s %v", d.tool, d.answer.raw, again.raw, err)
		}
	}
}

// hashesChain checks every event and every seal as an auditor does.
func (f *field) hashesChain() {
	err := f.store(func(ctx context.Context, s *eventstore.Store) error {
		keys, err := secret.Load(f.kekFile())
		if err != nil {
			return err
		}
		vault := secret.Vault{Pool: s.Pool, Keys: keys}
		seed, err := vault.GetOrCreate(ctx, "seal:1", func() ([]byte, error) { return make([]byte, ed25519.SeedSize), nil })
		if err != nil {
			return err
		}
		public := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
		_, err = s.Verify(ctx, map[string]ed25519.PublicKey{eventstore.KeyID(public): public}, func(int64) {})
		return err
	})
	if err != nil {
		f.violatef("%v", err)
	}
}

// viewsAreFoldsOfTheLog builds each view anew and compares it byte for byte. A
// request may expire meanwhile; then it looks again.
func (f *field) viewsAreFoldsOfTheLog() {
	err := f.store(func(ctx context.Context, s *eventstore.Store) error {
		for _, view := range projections.All() {
			if err := f.isFold(ctx, s, view); err != nil {
				return fmt.Errorf("view %s: %w", view.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		f.violatef("%v", err)
	}
}

func (f *field) isFold(ctx context.Context, s *eventstore.Store, view *projections.Projection) error {
	for {
		f.levels()
		before, err := s.Head(ctx)
		if err != nil {
			return err
		}
		live, err := f.dump(ctx, view)
		if err != nil {
			return err
		}
		if err := view.Rebuild(ctx, s, func(int64, int64) {}); err != nil {
			return err
		}
		rebuilt, err := f.dump(ctx, view)
		if err != nil {
			return err
		}
		after, err := s.Head(ctx)
		if err != nil {
			return err
		}
		if before == after {
			if diff := cmp.Diff(live, rebuilt); diff != "" {
				f.violatef("view %s is not a fold of the log (-live +rebuilt):\n%s", view.Name, diff)
			}
			return nil
		}
	}
}

// dump returns each table of a view with how many rows it has and their digest.
func (f *field) dump(ctx context.Context, view *projections.Projection) (map[string]string, error) {
	conn, err := f.direct(ctx, postgres.Super)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `SELECT tablename FROM pg_tables WHERE schemaname = $1`, view.Schema())
	if err != nil {
		return nil, err
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, table := range tables {
		var digest string
		err := conn.QueryRow(ctx, `
			SELECT count(*) || ' rows ' || md5(coalesce(string_agg(t::text, E'\n' ORDER BY t::text), ''))
			FROM `+pgx.Identifier{view.Schema(), table}.Sanitize()+` AS t`).Scan(&digest)
		if err != nil {
			return nil, err
		}
		all[table] = digest
	}
	return all, nil
}

// tailsSawTheLog compares what the live tails saw with the log.
func (f *field) tailsSawTheLog() {
	want, err := query[string](f, `SELECT id FROM log.events ORDER BY pos`)
	if err != nil {
		f.violatef("cannot read the log: %v", err)
		return
	}
	for i, t := range f.tails {
		if !eventually(patience, func() bool { return len(t.seen()) >= len(want) }) {
			f.violatef("tail %d saw %d of %d events", i, len(t.seen()), len(want))
			continue
		}
		if seen := t.seen(); !slices.Equal(seen[:len(want)], want) {
			f.violatef("tail %d saw other events than there are", i)
		}
	}
}

// listenersHeardTheFeed compares what each listener heard, over all its streams,
// with the feed as it stands in the view. A request may expire meanwhile.
func (f *field) listenersHeardTheFeed() {
	for _, l := range f.listeners {
		want, err := query[string](f, `
			SELECT feed || ':' || row_id
			FROM `+projections.Feed.Schema()+`.feed_item
			WHERE board = 'main' AND feed = $1 AND audience = $2
			ORDER BY pos, ord`, l.feed, l.audience)
		if err != nil {
			f.violatef("cannot read the feed: %v", err)
			continue
		}
		eventually(patience, func() bool { return len(l.ids()) >= len(want) })
		heard := l.ids()
		if once := slices.Compact(slices.Sorted(slices.Values(heard))); len(once) != len(heard) {
			f.violatef("a listener of %s for %s heard %d notices, %d of them again", l.feed, l.audience, len(heard), len(heard)-len(once))
		}
		if diff := cmp.Diff(want, heard[:min(len(want), len(heard))]); diff != "" && len(want) > 0 {
			f.violatef("a listener of %s for %s heard something else than the feed (-feed +heard):\n%.1000s", l.feed, l.audience, diff)
		}
	}
}
