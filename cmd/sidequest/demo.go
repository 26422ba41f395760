package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/mcp"
	"sidequest/projections"
	"sidequest/secret"
)

// playDemo plays the story of a deal against a running development server, and
// fails if any step of it does not hold:
//
//	sidequest demo
func playDemo(ctx context.Context, d development, log *slog.Logger, args []string, stdout, _ io.Writer) error {
	if len(args) > 0 {
		return errors.New("demo takes no arguments")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	s := &demo{voice: newVoice(stdout)}
	s.linef("", "Two agents strike a deal on %s.", d.Issuer)
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return s.meet(ctx, d, log) },
		s.listen, s.ask, s.repeat, s.quote, s.loseConnection, s.readInboxes,
	} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("step %d does not hold: %w", s.chapter, err)
		}
	}
	s.sayGoodbye()
	return nil
}

// An actor is an agent of the demo.
type actor struct {
	connection

	voice *voice
	part  string // in the story: hirer or worker
	id    domain.AgentID
}

// A demo is the story so far.
type demo struct {
	*voice

	hirer, worker *actor
	public, inbox *subscription  // of the worker
	token         domain.Address // of the reward
	request       map[string]any // the arguments of the hirer's request
	asked         answer
	requestID     string
	quoteID       string
}

// meet brings two agents that nobody has met before, one of each era.
func (s *demo) meet(ctx context.Context, d development, log *slog.Logger) error {
	s.begin("Two agents arrive")
	n := rand.N(1_000_000)
	return d.use(ctx, log, func(ctx context.Context, store *eventstore.Store, vault secret.Vault) error {
		for _, a := range []struct {
			slot                 **actor
			part, scope, version string
		}{
			{&s.hirer, "hirer", domain.ScopeHire, mcp.V20260728},
			{&s.worker, "worker", domain.ScopeWork, mcp.V20251125},
		} {
			name := fmt.Sprintf("demo-%s-%d", a.part, n)
			minted, err := mintToken(ctx, store, vault, d, tokenRequest{
				Agent: name, Board: mainBoard, Scopes: []string{domain.ScopeRead, a.scope},
			})
			if err != nil {
				return err
			}
			*a.slot = &actor{connection{http.DefaultClient, d.Issuer, minted.Token, a.version}, s.voice, a.part, minted.AgentID}
			if _, err := (*a.slot).do(ctx, "whoami", nil, ""); err != nil {
				return fmt.Errorf("reach %s, which `make run` starts: %w", d.Issuer, err)
			}
			s.tellf("The %s is %s, agent %s; it speaks revision %s of MCP.", a.part, name, minted.AgentID, a.version)
		}
		return nil
	})
}

func (s *demo) listen(ctx context.Context) (err error) {
	s.begin("The worker listens for work")
	for _, open := range []struct {
		slot **subscription
		feed string
	}{{&s.public, projections.FeedRequests}, {&s.inbox, projections.FeedInbox}} {
		s.call(s.worker.part, "events/stream "+open.feed)
		if *open.slot, err = s.worker.listen(ctx, open.feed); err != nil {
			return err
		}
	}
	s.holdsf("Both streams are active. Nothing is polled from here on.")
	return nil
}

func (s *demo) ask(ctx context.Context) error {
	s.begin("The hirer asks for quotes")
	info, err := s.hirer.do(ctx, "protocol_info", nil, "")
	if err != nil {
		return err
	}
	if s.token, err = rewardToken(info); err != nil {
		return err
	}
	s.request = map[string]any{
		"operationKey":       "ask",
		"title":              "Translate our README into French",
		"brief":              "Translate the file as it stands. Leave code, commands and names alone.",
		"acceptanceCriteria": []string{"Every section is translated.", "Code blocks are unchanged."},
		"tags":               []string{"writing"},
		"budget":             map[string]any{"token": s.token, "max": "50"},
		"quoteDeadline":      "1d",
		"deliveryDeadline":   "3d",
	}
	if s.asked, err = s.hirer.do(ctx, "request_quotes", s.request, "for a translation, at most 50 tUSD"); err != nil {
		return err
	}
	answered := time.Now()
	s.requestID = field(s.asked, "requestId")
	if err := s.public.until("request.opened", s.requestID); err != nil {
		return err
	}
	s.holdsf("The worker knew %s after the hirer had its answer.", max(0, time.Since(answered)).Round(100*time.Microsecond))
	return nil
}

// repeat shows what a client does whose answer got lost.
func (s *demo) repeat(ctx context.Context) error {
	s.begin("The hirer is not sure that its request arrived, and sends it again")
	again, err := s.hirer.do(ctx, "request_quotes", s.request, "the same operationKey, the same arguments")
	if err != nil {
		return err
	}
	if again.raw != s.asked.raw {
		return fmt.Errorf("the repeat was answered %s, the first time it was %s", again.raw, s.asked.raw)
	}
	s.holdsf("The same answer, word for word, and still one request.")
	s.request["title"] = "Translate our README into Spanish"
	refused, err := s.hirer.call(ctx, "request_quotes", s.request)
	if err != nil {
		return err
	}
	s.call(s.hirer.part, "request_quotes the same operationKey, another title")
	if refused.Code != string(domain.KeyConflict) {
		return fmt.Errorf("another request under the same key was answered %s", refused.raw)
	}
	s.holdsf("Refused with %s: %s", refused.Code, refused.Message)
	return nil
}

func (s *demo) quote(ctx context.Context) error {
	s.begin("The worker quotes")
	list, err := s.worker.do(ctx, "list_quote_requests", nil, "")
	if err != nil {
		return err
	}
	var open projections.RequestList
	if err := json.Unmarshal(list.Result, &open); err != nil {
		return fmt.Errorf("read the list of requests: %w", err)
	}
	if !slices.ContainsFunc(open.Requests, func(r projections.RequestItem) bool { return string(r.RequestID) == s.requestID }) {
		return fmt.Errorf("request %s is not in the list", s.requestID)
	}
	quoted, err := s.worker.do(ctx, "submit_quote", map[string]any{
		"operationKey": "quote", "requestId": s.requestID, "agentId": s.worker.id, "token": s.token,
		"amount": "42.50", "note": "Native speaker, done by tomorrow.",
	}, "42.50 tUSD")
	if err != nil {
		return err
	}
	s.quoteID = field(quoted, "quoteId")
	s.call(s.hirer.part, "events/poll "+projections.FeedInbox+", and wait for an answer")
	got, err := s.hirer.poll(ctx, map[string]any{"name": projections.FeedInbox, "timeoutMs": patience.Milliseconds()})
	if err != nil {
		return err
	}
	if len(got.Events) != 1 || got.Events[0].Data.Kind != "quote.received" {
		return fmt.Errorf("the hirer's inbox has %+v, not one quote", got.Events)
	}
	s.hears(s.hirer.part, "quote.received — "+got.Events[0].Data.Summary)
	s.holdsf("Only the hirer hears of the quote; it is private.")
	return nil
}

// loseConnection lets the deal be struck while the worker is away.
func (s *demo) loseConnection(ctx context.Context) error {
	s.begin("The worker loses its connection, and just then the hirer picks its quote")
	s.public.cut()
	s.inbox.cut()
	s.tellf("Both streams are cut. The worker still has the cursor of each.")
	if _, err := s.hirer.do(ctx, "list_quotes", map[string]any{"requestId": s.requestID}, ""); err != nil {
		return err
	}
	picked, err := s.hirer.do(ctx, "pick_quote", map[string]any{
		"operationKey": "pick", "requestId": s.requestID, "quoteId": s.quoteID,
	}, "quote "+s.quoteID)
	if err != nil {
		return err
	}
	s.tellf("The worker comes back and continues from its cursors.")
	for _, e := range []*subscription{s.public, s.inbox} {
		s.call(s.worker.part, "events/stream "+e.feed+" from "+e.cursor[:min(16, len(e.cursor))]+"…")
		if err := e.connect(ctx); err != nil {
			return err
		}
		if err := e.until("request.picked", s.requestID); err != nil {
			return err
		}
	}
	s.holdsf("Nothing was lost and nothing came twice. The hire is task %s.", field(picked, "taskId"))
	return nil
}

func (s *demo) readInboxes(ctx context.Context) error {
	s.begin("What each of them has in its inbox")
	for _, a := range []struct {
		*actor

		want []string
	}{{s.hirer, []string{"quote.received", "request.picked"}}, {s.worker, []string{"request.picked"}}} {
		read, err := a.do(ctx, "inbox", map[string]any{"includePublic": false}, "")
		if err != nil {
			return err
		}
		var inbox page
		if err := json.Unmarshal(read.Result, &inbox); err != nil {
			return fmt.Errorf("read the inbox of the %s: %w", a.part, err)
		}
		var kinds []string
		for _, o := range inbox.Events {
			kinds = append(kinds, o.Data.Kind)
			s.tellf("%-14s %s", o.Data.Kind, o.Data.Summary)
		}
		if !slices.Equal(kinds, a.want) {
			return fmt.Errorf("the inbox of the %s has %v, not %v", a.part, kinds, a.want)
		}
	}
	s.holdsf("Both agents know what there is to know.")
	return nil
}

func (s *demo) sayGoodbye() {
	s.linef("", `
The deal is struck. What to try next:
   bin/sidequest token --agent ann         a token for an agent of your own
   SIDEQUEST_ADDR=127.0.0.1:8081 make run  a second copy; agents of either see each other
   kill -9 the server, make run            and ask again: nothing is lost
/docs/tools and /openapi.json of the server say how to call every tool.`)
}

// do calls a tool that must succeed, and shows the call.
func (a *actor) do(ctx context.Context, tool string, args map[string]any, remark string) (answer, error) {
	if args == nil {
		args = map[string]any{}
	}
	got, err := a.call(ctx, tool, args)
	if err != nil {
		return got, err
	}
	if !got.OK {
		return got, fmt.Errorf("%s was refused with %s: %s", tool, got.Code, got.Message)
	}
	if tool != "whoami" {
		a.voice.call(a.part, strings.TrimSpace(tool+" "+remark)+outcome(got))
	}
	return got, nil
}

// outcome is how a write ended, in a few words.
func outcome(a answer) string {
	if a.Status == "" {
		return ""
	}
	return " ⇒ " + a.Status
}

// field returns a text of the result, "" if there is none of that name.
func field(a answer, name string) string {
	var result map[string]any
	if json.Unmarshal(a.Result, &result) != nil {
		return ""
	}
	text, _ := result[name].(string)
	return text
}

// rewardToken returns the first token the board pays in.
func rewardToken(info answer) (domain.Address, error) {
	var result struct {
		RewardTokens []domain.Token `json:"rewardTokens"`
	}
	if err := json.Unmarshal(info.Result, &result); err != nil || len(result.RewardTokens) == 0 {
		return "", errors.Join(errors.New("protocol_info names no reward token"), err)
	}
	return result.RewardTokens[0].Address, nil
}
