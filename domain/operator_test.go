package domain_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidequest/domain"
)

func TestAnOperatorIsRegisteredOnceAndErasedForGood(t *testing.T) {
	t.Parallel()
	personal := func(text string) domain.Personal { return domain.Personal{Subject: "op-1", Text: text} }
	ann := domain.OperatorRegistered{Name: personal("Ann"), Email: personal("ann@example.com")}
	given := func(events ...domain.Event[domain.Operator]) domain.States {
		var facts []domain.Fact
		for _, e := range events {
			facts = append(facts, domain.Operators.Record("op-1", e))
		}
		return domain.Fold(domain.Categories, facts...)
	}
	erased := domain.OperatorErased{OperatorID: "op-1"}
	for _, tt := range []struct {
		name   string
		states domain.States
		when   domain.Command[domain.RegisterOperatorAnswer]
		then   []domain.Fact
		code   string
	}{
		{"a new operator is recorded", given(), domain.RegisterOperator{OperatorID: "op-1", Name: "Ann", Email: "ann@example.com"}, []domain.Fact{domain.Operators.Record("op-1", ann)}, ""},
		{"what is already so records nothing", given(ann), domain.RegisterOperator{OperatorID: "op-1", Name: "Ann", Email: "ann@example.com"}, nil, ""},
		{"a blank name is refused", given(), domain.RegisterOperator{OperatorID: "op-1", Name: " "}, nil, "invalid"},
		{"an operator is erased", given(ann), domain.EraseOperator{OperatorID: "op-1"}, []domain.Fact{domain.Operators.Record("op-1", erased)}, ""},
		{"once erased there is nothing to erase", given(ann, erased), domain.EraseOperator{OperatorID: "op-1"}, nil, ""},
		{"an unknown operator cannot be erased", given(), domain.EraseOperator{OperatorID: "op-1"}, nil, "not-found"},
		{"an erased operator does not come back", given(ann, erased), domain.RegisterOperator{OperatorID: "op-1", Name: "Ann"}, nil, "operator-erased"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			facts, _, err := tt.when.Decide(tt.states, domain.Meta{Actor: domain.System})
			if domain.CodeOf(err) != tt.code {
				t.Errorf("%v, want %q", err, tt.code)
			}
			if diff := cmp.Diff(tt.then, facts); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPersonalFieldsAreMappedAllOrFail(t *testing.T) {
	t.Parallel()
	e := domain.OperatorRegistered{Name: domain.Personal{Text: "a"}, Email: domain.Personal{Text: "b"}}
	got, err := e.MapPersonal(func(p domain.Personal) (domain.Personal, error) { return domain.Personal{Text: p.Text + "!"}, nil })
	want := domain.OperatorRegistered{Name: domain.Personal{Text: "a!"}, Email: domain.Personal{Text: "b!"}}
	if diff := cmp.Diff(domain.Typed(want), got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	broken := errors.New("broken")
	if _, err := e.MapPersonal(func(p domain.Personal) (domain.Personal, error) { return p, broken }); !errors.Is(err, broken) {
		t.Errorf("%v, want the error", err)
	}
}

// TestAStateThatIsKeptComesBackTheSame folds the samples and sends each state
// through its kept form.
func TestAStateThatIsKeptComesBackTheSame(t *testing.T) {
	t.Parallel()
	facts := samples()
	for stream, state := range domain.Fold(domain.Categories, facts...) {
		c := category(t, stream)
		if c.Form() == 0 {
			continue
		}
		raw, err := c.EncodeState(state)
		if err != nil {
			t.Fatal(err)
		}
		back, err := c.DecodeState(raw)
		if err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(back)
		if err != nil || string(again) != string(raw) {
			t.Errorf("%s: %s\ncomes back as %s, %v", stream, raw, again, err)
		}
		more := end(domain.QuoteWithdrawn{QuoteID: quoteID(bob), Bidder: bob.AgentKey})
		if stream != more.Stream {
			continue
		}
		one, _ := c.EncodeState(c.Fold(state, more.Event))
		two, _ := c.EncodeState(c.Fold(back, more.Event))
		if string(one) != string(two) {
			t.Error("the state that came back folds differently")
		}
	}
}
