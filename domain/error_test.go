package domain_test

import (
	"errors"
	"fmt"
	"testing"

	"sidequest/domain"
)

func TestEveryClassSaysWhatARepeatWouldDo(t *testing.T) {
	t.Parallel()

	for class, want := range map[domain.Class]domain.Retry{
		domain.Unauthenticated:   domain.RetryNone,
		domain.InsufficientScope: domain.RetryNone,
		domain.RoleRequired:      domain.RetryAfterOperator,
		domain.Forbidden:         domain.RetryNone,
		domain.Invalid:           domain.RetryNewKey,
		domain.KeyConflict:       domain.RetryNone,
		domain.Conflict:          domain.RetryNewKey,
		domain.NotFound:          domain.RetryNone,
		domain.RateLimited:       domain.RetrySameKey,
		domain.Overloaded:        domain.RetrySameKey,
		domain.Unavailable:       domain.RetrySameKey,
	} {
		if got := class.Retry(); got != want {
			t.Errorf("%s may be repeated %s, want %s", class, got, want)
		}
		if class.LeavesReceipt() != (class == domain.Conflict) {
			t.Errorf("%s leaves a receipt: %v", class, class.LeavesReceipt())
		}
	}
}

func TestAnErrorIsKnownByItsCode(t *testing.T) {
	t.Parallel()

	refusal := domain.RefuseAs(domain.Invalid, "over-budget", "quote no more than %s", "20").At("/amount")
	for _, tt := range []struct {
		err        error
		code, text string
	}{
		{nil, "", ""},
		{refusal, "over-budget", "over-budget: /amount: quote no more than 20"},
		{fmt.Errorf("submit: %w", domain.Refuse(domain.NotFound, "no")), "not-found", "submit: not-found: no"},
		{errors.New("disk full"), "internal", "disk full"},
	} {
		if got := domain.CodeOf(tt.err); got != tt.code {
			t.Errorf("code of %v is %q, want %q", tt.err, got, tt.code)
		}
		if tt.err != nil && tt.err.Error() != tt.text {
			t.Errorf("%q, want %q", tt.err, tt.text)
		}
	}
}
