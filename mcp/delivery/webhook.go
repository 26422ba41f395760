package delivery

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sidequest/mcp"
	"sidequest/webhook"
)

// subscribeParameters are those of events/subscribe and events/unsubscribe.
type subscribeParameters struct {
	parameters
	ID       jsontext.Value `json:"id"` // of events/unsubscribe
	Delivery jsontext.Value `json:"delivery"`
	TTLMS    jsontext.Value `json:"ttlMs"`
}

// target is the delivery of either, unread.
type target struct {
	Mode   jsontext.Value `json:"mode"`
	URL    jsontext.Value `json:"url"`
	Secret jsontext.Value `json:"secret"`
}

type subscribeAnswer struct {
	ID             string         `json:"id"`
	RefreshBefore  *string        `json:"refreshBefore"`
	Cursor         string         `json:"cursor"`
	Truncated      bool           `json:"truncated"`
	DeliveryStatus deliveryStatus `json:"deliveryStatus"`
}

type deliveryStatus struct {
	Active         bool    `json:"active"`
	LastDeliveryAt *string `json:"lastDeliveryAt"`
	LastError      *string `json:"lastError"`
	FailedSince    string  `json:"failedSince,omitzero"`
	Throttled      bool    `json:"throttled,omitzero"`
	RetryAfterMS   int64   `json:"retryAfterMs,omitzero"`
}

// subscribe answers events/subscribe: the same parameters make one subscription,
// however often they are sent.
func (f *Feeds) subscribe(ctx context.Context, c *mcp.Call) (any, error) {
	var params subscribeParameters
	if err := c.Request.Decode(&params); err != nil {
		return nil, err
	}
	sub, err := f.subscription(c.Caller, params.parameters)
	if err != nil {
		return nil, err
	}
	w := webhook.Wish{
		Grant: c.Caller.GrantID, Agent: string(c.Caller.AgentKey), Operator: c.Caller.Operator, Selector: sub.selector,
		Explicit: sub.start.Cursor != "",
	}
	if w.Key, w.Secret, err = f.target(c.Caller, params, true); err != nil {
		return nil, err
	}
	if w.Term, err = term(params.TTLMS); err != nil {
		return nil, err
	}
	if err := f.awaitTail(ctx); err != nil {
		return nil, err
	}
	l := &listener{selector: sub.selector}
	if w.Truncated, err = f.begin(ctx, l, sub); err != nil {
		return nil, err
	}
	w.Epoch, w.Place = l.line.epoch, l.place
	s, err := f.Hooks.Subscribe(ctx, w)
	if err != nil {
		return nil, f.refusal(err)
	}
	return f.subscribed(sub, s), nil
}

// refusal says what package webhook refuses with in words of the protocol.
func (f *Feeds) refusal(err error) error {
	if e, ok := errors.AsType[*webhook.CallbackError](err); ok {
		return f.Codes.callback(e)
	}
	if e, ok := errors.AsType[*webhook.LimitError](err); ok {
		return f.Codes.limited(e)
	}
	return err
}

func (f *Feeds) subscribed(sub subscription, s webhook.Subscription) subscribeAnswer {
	a := subscribeAnswer{
		ID: s.ID, RefreshBefore: moment(s.Expires), Cursor: f.Cursors.Encode(sub.feed(), s.Epoch, s.Place), Truncated: s.Truncated,
		DeliveryStatus: deliveryStatus{
			Active: s.Status.State == webhook.Active && !s.Status.Paused, LastDeliveryAt: moment(s.Status.DeliveredAt),
		},
	}
	if s.Status.LastError != "" {
		a.DeliveryStatus.LastError = &s.Status.LastError
	}
	if since := moment(s.Status.FailedSince); since != nil {
		a.DeliveryStatus.FailedSince, a.DeliveryStatus.RetryAfterMS = *since, s.Status.RetryAfter.Milliseconds()
	}
	return a
}

// unsubscribe answers events/unsubscribe. Clients of two drafts are about: some name
// the subscription by its id, some by what they subscribed with. One that is not
// there is no error, so that a repeat is none.
func (f *Feeds) unsubscribe(ctx context.Context, c *mcp.Call) (any, error) {
	var params subscribeParameters
	if err := c.Request.Decode(&params); err != nil {
		return nil, err
	}
	id, ok := text(params.ID)
	if given(params.ID) && !ok {
		return nil, mcp.InvalidParams("params.id must be a string.")
	}
	if !given(params.ID) {
		if _, err := f.subscription(c.Caller, params.parameters); err != nil {
			return nil, err
		}
		key, _, err := f.target(c.Caller, params, false)
		if err != nil {
			return nil, err
		}
		id = key.ID()
	}
	return struct{}{}, f.Hooks.Unsubscribe(ctx, principal(c.Caller), id)
}

// principal is whose subscriptions a caller's are: those of a client for an agent
// on a board. They outlive a grant that is followed by another.
func principal(c mcp.Caller) string {
	return c.Board + " " + string(c.AgentKey) + " " + c.ClientID
}

// target reads the key of a subscription, and the secret where one is needed.
func (f *Feeds) target(c mcp.Caller, p subscribeParameters, withSecret bool) (key webhook.Key, secret []byte, err error) {
	if p.Delivery.Kind() != '{' {
		return key, nil, mcp.InvalidParams("params.delivery is required and must be an object.")
	}
	var d target
	if err := json.Unmarshal(p.Delivery, &d); err != nil {
		return key, nil, mcp.InvalidParams("params.delivery cannot be read.")
	}
	mode, ok := text(d.Mode)
	if withSecret && !ok {
		return key, nil, mcp.InvalidParams("params.delivery.mode is required and must be a string.")
	}
	if ok && mode != "webhook" {
		return key, nil, f.Codes.unsupportedMode(mode)
	}
	url, ok := text(d.URL)
	if !ok {
		return key, nil, mcp.InvalidParams("params.delivery.url is required and must be a string.")
	}
	arguments := jsontext.Value("{}")
	if given(p.Arguments) {
		arguments = p.Arguments.Clone()
		if err := arguments.Canonicalize(); err != nil {
			return key, nil, mcp.InvalidParams("params.arguments cannot be read.")
		}
	}
	name, _ := text(p.Name)
	key = webhook.Key{Principal: principal(c), URL: url, Event: name, Arguments: string(arguments)}
	if !withSecret {
		return key, nil, nil
	}
	s, ok := text(d.Secret)
	if !ok {
		return key, nil, mcp.InvalidParams("params.delivery.secret is required and must be a string.")
	}
	secret, err = webhook.ParseSecret(s)
	return key, secret, err
}

// term reads how long a subscription is to last. Null asks for no end, and what is
// too short or too long becomes the least or the most.
func term(v jsontext.Value) (time.Duration, error) {
	if v.Kind() == 'n' {
		return 0, nil
	}
	ms, err := number("ttlMs", v, 1, int(webhook.MaxTerm.Milliseconds()), int(webhook.StandardTerm.Milliseconds()))
	if err != nil {
		return 0, err
	}
	return max(time.Duration(ms)*time.Millisecond, webhook.MinTerm), nil
}

// moment writes a time as clients expect it; nil stays nil.
func moment(t *time.Time) *string {
	if t == nil {
		return nil
	}
	s := t.UTC().Format("2006-01-02T15:04:05.000Z")
	return &s
}
