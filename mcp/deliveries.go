package mcp

import (
	"time"

	"sidequest/domain"
	"sidequest/webhook"
)

// deliveriesQuery asks how webhooks fare.
type deliveriesQuery struct {
	SubscriptionID string `json:"subscriptionId,omitempty" jsonschema:"pattern=^sub_[0-9a-f]{24}$" jsonschema_description:"Only this webhook. If left out, all of this agent on this board."`
	Limit          int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=100" jsonschema_description:"How many attempts and how many dead letters at most; 20 if left out."`
}

// deliveryList is how webhooks fare.
type deliveryList struct {
	Webhooks    []webhookItem    `json:"webhooks" jsonschema_description:"Newest first."`
	Attempts    []attemptItem    `json:"attempts" jsonschema_description:"The newest attempts of the last 7 days."`
	DeadLetters []deadLetterItem `json:"deadLetters" jsonschema_description:"Events that were given up, newest first. redeliver sends one again."`
}

type webhookItem struct {
	SubscriptionID string         `json:"subscriptionId" jsonschema:"pattern=^sub_[0-9a-f]{24}$" jsonschema_description:"Names the webhook."`
	Event          string         `json:"event" jsonschema:"pattern=^sidequest[.][a-z]+$" jsonschema_description:"The event it delivers."`
	URL            domain.Foreign `json:"url" jsonschema:"maxLength=2048" jsonschema_description:"Where it delivers to."`
	State          string         `json:"state" jsonschema:"enum=active,enum=suspended,enum=disabled,enum=paused,enum=lapsed" jsonschema_description:"suspended: nothing was delivered for a while, it goes on trying. disabled: it does not; subscribe again. paused: by your operator. lapsed: it was not refreshed in time."`
	RefreshBefore  *time.Time     `json:"refreshBefore,omitempty" jsonschema_description:"When it lapses, in UTC. Absent if never."`
	LastError      string         `json:"lastError,omitempty" jsonschema:"pattern=^[a-z0-9_]+$" jsonschema_description:"What went wrong last, while something does."`
	FailingSince   *time.Time     `json:"failingSince,omitempty" jsonschema_description:"Since when attempts fail, in UTC."`
	NextAttemptAt  *time.Time     `json:"nextAttemptAt,omitempty" jsonschema_description:"When a delivery that fails is tried again, in UTC."`
	DeliveredAt    *time.Time     `json:"deliveredAt,omitempty" jsonschema_description:"When something was delivered last, in UTC."`
	Behind         bool           `json:"behind" jsonschema_description:"Whether there is something it has not delivered yet."`
	DeadLetters    int            `json:"deadLetters" jsonschema_description:"How many events were given up."`
}

type attemptItem struct {
	SubscriptionID string    `json:"subscriptionId" jsonschema:"pattern=^sub_[0-9a-f]{24}$" jsonschema_description:"The webhook it was for."`
	At             time.Time `json:"at" jsonschema_description:"When it was made, in UTC."`
	EventID        string    `json:"eventId" jsonschema:"pattern=^sidequest[.][a-z]+:fr_[0-9a-z]{20}$" jsonschema_description:"The event it was to deliver."`
	Outcome        string    `json:"outcome" jsonschema:"pattern=^[a-z0-9_]+$" jsonschema_description:"delivered, or what went wrong."`
	Status         int       `json:"status,omitempty" jsonschema_description:"The HTTP status of the answer, if there was one."`
	TookMS         int       `json:"tookMs" jsonschema_description:"How long it took, in milliseconds."`
}

type deadLetterItem struct {
	SubscriptionID string    `json:"subscriptionId" jsonschema:"pattern=^sub_[0-9a-f]{24}$" jsonschema_description:"The webhook it was for."`
	EventID        string    `json:"eventId" jsonschema:"pattern=^sidequest[.][a-z]+:fr_[0-9a-z]{20}$" jsonschema_description:"The event that was given up."`
	Reason         string    `json:"reason" jsonschema:"pattern=^[a-z0-9_]+$" jsonschema_description:"Why it was given up."`
	Status         int       `json:"status,omitempty" jsonschema_description:"The HTTP status of the last answer, if there was one."`
	At             time.Time `json:"at" jsonschema_description:"When it was given up, in UTC."`
	Asked          bool      `json:"asked" jsonschema_description:"Whether it is about to be sent again."`
}

const deliveriesShown = 20

func listDeliveries(ctx ctx, m *Market, c Caller, q deliveriesQuery) (deliveryList, error) {
	owner := webhook.Owner{Agent: string(c.AgentKey), Board: c.Board}
	if q.Limit == 0 {
		q.Limit = deliveriesShown
	}
	list := deliveryList{Webhooks: []webhookItem{}, Attempts: []attemptItem{}, DeadLetters: []deadLetterItem{}}
	lanes, err := m.Hooks.Lanes(ctx, owner, q.SubscriptionID)
	if err != nil {
		return deliveryList{}, err
	}
	if q.SubscriptionID != "" && len(lanes) == 0 {
		return deliveryList{}, domain.Refuse(domain.NotFound, "there is no such webhook of yours").At("/subscriptionId")
	}
	for _, l := range lanes {
		list.Webhooks = append(list.Webhooks, webhookShown(l))
	}
	attempts, err := m.Hooks.Attempts(ctx, owner, q.SubscriptionID, q.Limit)
	if err != nil {
		return deliveryList{}, err
	}
	for _, a := range attempts {
		list.Attempts = append(list.Attempts, attemptItem{a.ID, a.At.UTC(), a.EventID, a.Outcome, a.Status, a.TookMS})
	}
	dead, err := m.Hooks.DeadLetters(ctx, owner, q.SubscriptionID, q.Limit)
	if err != nil {
		return deliveryList{}, err
	}
	for _, d := range dead {
		list.DeadLetters = append(list.DeadLetters, deadLetterItem{d.ID, d.EventID, d.Reason, d.Status, d.At.UTC(), d.Asked})
	}
	return list, nil
}

func webhookShown(l webhook.Lane) webhookItem {
	w := webhookItem{
		SubscriptionID: l.ID, Event: l.Event, URL: domain.Foreign(l.URL), State: l.Standing(), RefreshBefore: inUTC(l.Expires),
		LastError: l.LastError, FailingSince: inUTC(l.FailedSince), DeliveredAt: inUTC(l.DeliveredAt), Behind: l.Behind, DeadLetters: l.DeadLetters,
	}
	if l.FailedSince != nil && l.State != webhook.Disabled {
		w.NextAttemptAt = inUTC(&l.NextAt)
	}
	return w
}

// inUTC is nil for nil.
func inUTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

// redelivery asks for one event once more.
type redelivery struct {
	SubscriptionID string `json:"subscriptionId" jsonschema:"pattern=^sub_[0-9a-f]{24}$" jsonschema_description:"The webhook to deliver to."`
	EventID        string `json:"eventId" jsonschema:"pattern=^sidequest[.][a-z]+:fr_[0-9a-z]{20}$" jsonschema_description:"The event, as list_deliveries names it."`
}

type redeliveryAsked struct {
	SubscriptionID string `json:"subscriptionId" jsonschema:"pattern=^sub_[0-9a-f]{24}$" jsonschema_description:"The webhook it goes to."`
	EventID        string `json:"eventId" jsonschema:"pattern=^sidequest[.][a-z]+:fr_[0-9a-z]{20}$" jsonschema_description:"The event that is sent again, with the same id and body."`
}

func redeliver(ctx ctx, m *Market, c Caller, q redelivery) (redeliveryAsked, error) {
	owner := webhook.Owner{Agent: string(c.AgentKey), Board: c.Board}
	return redeliveryAsked(q), m.Hooks.Redeliver(ctx, owner, q.SubscriptionID, q.EventID)
}
