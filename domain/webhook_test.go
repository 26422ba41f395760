package domain_test

import (
	"testing"
	"time"

	"sidequest/domain"
)

func TestOnlyTheSystemRecordsThatAWebhookHalted(t *testing.T) {
	t.Parallel()
	c := domain.RecordWebhookHalt{
		Webhook: "sub_1", AgentKey: ann.AgentKey, State: domain.WebhookDisabled, Reason: "http_4xx", FailingSince: time.Unix(0, 0),
	}
	_, _, err := c.Decide(nil, domain.Meta{Actor: ann.AgentKey})
	if domain.CodeOf(err) != string(domain.Forbidden) {
		t.Errorf("an agent is answered with %v", err)
	}
	facts, _, err := c.Decide(nil, domain.Meta{Actor: domain.System})
	if err != nil || len(facts) != 1 {
		t.Fatalf("the system is answered with %v, %v", facts, err)
	}
	state := domain.Webhooks.In(domain.Fold(domain.Categories, facts...), "sub_1")
	if state.Halted != domain.WebhookDisabled || state.AgentKey != ann.AgentKey {
		t.Errorf("the webhook is %+v", state)
	}
}
