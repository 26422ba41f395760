package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A deed is a write that was answered for good.
type deed struct {
	by     *agent
	tool   string
	args   map[string]any
	answer answer
}

// A load is agents striking deals until it is stopped.
type load struct {
	f       *field
	round   string // begins every operation key
	over    atomic.Bool
	working sync.WaitGroup
}

// deals makes the hirers strike deals with the workers. The round names their keys.
func (f *field) deals(round string) *load {
	l := &load{f: f, round: round}
	for i, hirer := range f.hirers() {
		chance := rand.New(rand.NewPCG(f.chance.Uint64(), uint64(i)))
		l.working.Go(func() {
			for n := 0; !l.over.Load(); n++ {
				l.deal(hirer, fmt.Sprintf("%s-%s-%d", round, hirer.name, n), chance)
			}
		})
	}
	return l
}

// stop lets the deals under way end.
func (l *load) stop() {
	l.over.Store(true)
	l.working.Wait()
}

// progress waits until so many more writes were answered.
func (f *field) progress(more int) bool {
	from := f.done()
	ok := eventually(patience, func() bool { return f.done() >= from+more })
	if !ok {
		f.t.Logf("nothing goes on:\n%s", f.activity())
	}
	return ok
}

// activity is what the connections to the database do, for who has to find out why
// nothing goes on.
func (f *field) activity() string {
	lines, err := query[string](f, `
		SELECT concat_ws(' | ', pid, application_name, state, wait_event_type, wait_event, clock_timestamp() - xact_start,
			pg_blocking_pids(pid), regexp_replace(left(query, 160), '\s+', ' ', 'g'))
		FROM pg_stat_activity
		WHERE datname = current_database() AND state <> 'idle'`)
	if err != nil {
		return err.Error()
	}
	return strings.Join(lines, "\n")
}

func (f *field) done() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.deeds)
}

// write carries out one operation, however long it takes.
func (f *field) write(by *agent, tool string, args map[string]any) (answer, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	began := time.Now()
	got, err := by.call(ctx, f.anywhere(), tool, args)
	took := time.Since(began)
	first := err == nil && got.final()
	if !first {
		got, err = f.insist(ctx, by, tool, args)
	}
	if err != nil {
		f.violatef("a write was never answered: %v\n%s", err, f.activity())
		return answer{}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deeds = append(f.deeds, deed{by, tool, args, got})
	if first {
		f.latencies = append(f.latencies, took)
	}
	return got, true
}

// must is write for what has to succeed.
func (f *field) must(by *agent, tool string, args map[string]any) (answer, bool) {
	got, ok := f.write(by, tool, args)
	if ok && !got.OK {
		f.violatef("%s of %s was refused: %s", tool, by.name, got.raw)
	}
	return got, ok && got.OK
}

// deal plays one deal: a request, quotes, and an end. After every write its author
// reads on some other process, and must find what it wrote.
func (l *load) deal(hirer *agent, key string, chance *rand.Rand) {
	f := l.f
	request := requestArgs(key)
	if chance.IntN(10) == 0 { // one that nobody quotes for, and that expires
		request["quoteDeadline"], request["deliveryDeadline"] = "1s", "2s"
		f.must(hirer, "request_quotes", request)
		return
	}
	asked, ok := f.must(hirer, "request_quotes", request)
	if !ok {
		return
	}
	id := text(asked.Result, "requestId")
	f.finds(hirer, id, "open", "")
	var quotes []string
	for i, worker := range f.workers() {
		args := map[string]any{"operationKey": fmt.Sprintf("%s-%d", key, i), "requestId": id, "agentId": worker.id, "token": testUSD, "amount": "10"}
		offered, ok := f.must(worker, "submit_quote", args)
		if !ok {
			return
		}
		quote := text(offered.Result, "quoteId")
		f.finds(worker, id, "open", quote)
		quotes = append(quotes, quote)
	}
	end := map[string]any{"operationKey": key + "-end", "requestId": id}
	status, tool := "picked", "pick_quote"
	if chance.IntN(3) == 0 {
		status, tool = "closed", "close_request"
	} else {
		end["quoteId"] = quotes[chance.IntN(len(quotes))]
	}
	if _, ok := f.must(hirer, tool, end); !ok {
		return
	}
	f.finds(hirer, id, status, "")
	// A refusal that belongs on the record is repeated like a success.
	late, ok := f.write(hirer, "close_request", map[string]any{"operationKey": key + "-late", "requestId": id})
	if ok && late.OK && status == "picked" {
		f.violatef("a picked request was closed: %s", late.raw)
	}
}

// finds reads a request as one of its parties, and notes if what the reader has
// written is missing. A read may be refused for the moment, never be old.
func (f *field) finds(reader *agent, id, status, quote string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	got, err := f.insist(ctx, reader, "list_quotes", map[string]any{"requestId": id})
	if err != nil {
		f.violatef("a read was never answered: %v\n%s", err, f.activity())
		return
	}
	var list struct {
		Status string `json:"status"`
		Quotes []struct {
			QuoteID string `json:"quoteId"`
		} `json:"quotes"`
	}
	_ = json.Unmarshal(got.Result, &list)
	var quotes []string
	for _, q := range list.Quotes {
		quotes = append(quotes, q.QuoteID)
	}
	if !got.OK || list.Status != status || quote != "" && !slices.Contains(quotes, quote) {
		f.violatef("%s does not see its own write: request %s should be %s with quote %q, and reads %s", reader.name, id, status, quote, got.raw)
	}
}

func requestArgs(key string) map[string]any {
	return map[string]any{
		"operationKey": key, "title": "A logo", "brief": "Draw a logo.", "acceptanceCriteria": []string{"It is a logo."},
		"tokens": []string{testUSD}, "quoteDeadline": "3d", "deliveryDeadline": "7d",
	}
}

// text returns a field of a JSON object.
func text(raw json.RawMessage, name string) string {
	var all map[string]any
	_ = json.Unmarshal(raw, &all)
	s, _ := all[name].(string)
	return s
}
