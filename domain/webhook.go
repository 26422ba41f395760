package domain

import "time"

// How a webhook can come to a halt.
const (
	WebhookSuspended = "suspended" // nothing was delivered for a while; it goes on trying
	WebhookDisabled  = "disabled"  // it does not, until its agent subscribes again
)

// A Webhook is what the market remembers of one: no more than how it last halted.
// How far it has got is no fact of the market.
type Webhook struct {
	AgentKey AgentKey
	Halted   string // "" if it never did
}

// Webhooks is the category of webhooks, by the id of the subscription.
var Webhooks = Category[Webhook]{Name: "webhook", Events: []Event[Webhook]{WebhookHalted{}}}

// WebhookHalted says that deliveries to an agent's endpoint fail for longer.
type WebhookHalted struct {
	AgentKey     AgentKey  `json:"agentKey"`
	State        string    `json:"state"`
	Reason       string    `json:"reason"` // a category, such as timeout
	FailingSince time.Time `json:"failingSince"`
}

// EventType implements [Event].
func (WebhookHalted) EventType() string { return "webhook.halted" }

// Apply implements [Event].
func (e WebhookHalted) Apply(Webhook) Webhook { return Webhook{e.AgentKey, e.State} }

// RecordWebhookHalt records that a webhook is suspended or disabled. Only the
// system gives it.
type RecordWebhookHalt struct {
	Webhook      string    `json:"webhook"`
	AgentKey     AgentKey  `json:"agentKey"`
	State        string    `json:"state"`
	Reason       string    `json:"reason"`
	FailingSince time.Time `json:"failingSince"`
}

// Reads implements [Command].
func (c RecordWebhookHalt) Reads(Meta) []Stream { return []Stream{Webhooks.Stream(c.Webhook)} }

// Decide implements [Command].
func (c RecordWebhookHalt) Decide(_ States, m Meta) ([]Fact, struct{}, error) {
	if m.Actor != System {
		return nil, struct{}{}, Refuse(Forbidden, "only the system records how webhooks fare")
	}
	halted := WebhookHalted{AgentKey: c.AgentKey, State: c.State, Reason: c.Reason, FailingSince: c.FailingSince}
	return []Fact{Webhooks.Record(c.Webhook, halted)}, struct{}{}, nil
}
