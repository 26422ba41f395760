package oauth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"sidequest/domain"
)

// A Principal is who a token speaks for, and what it may do at one resource.
type Principal struct {
	AgentKey domain.AgentKey // "" while the grant only allows to set up an agent
	GrantID  string
	ClientID string
	Operator string
	Scopes   []string        // full names: those of the token that the grant still has
	Asked    []string        // full names: the most the grant can ever allow; while it has no agent, this token
	Proposed domain.AgentKey // the agent that the grant was to set up, "" for none
	Resource string          // the audience: the exact URL of the resource
}

const (
	maxToken = 4096            // bytes; ours have about 800
	leeway   = 5 * time.Second // between the clocks of two processes
)

// A Verifier checks access tokens. Make one with [NewVerifier].
type Verifier struct {
	keys    *Keys
	grants  *Grants
	parser  *jwt.Parser
	checked *checked
}

// NewVerifier returns a verifier of the tokens of one issuer.
func NewVerifier(keys *Keys, issuer string, grants *Grants) *Verifier {
	return &Verifier{keys, grants, jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodES256.Alg()}),
		jwt.WithStrictDecoding(), // no padding, no stray bits; nothing relies on there being one spelling of a token
		jwt.WithIssuer(issuer),
		jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(),
		jwt.WithLeeway(leeway),
	), newChecked()}
}

// Verify returns who presents a bearer token at a resource. Whatever is wrong
// with the token, the refusal is unauthenticated; it is forbidden where the operator
// is no member of a private board, and unavailable when the process cannot know
// whether the grant is live.
func (v *Verifier) Verify(ctx context.Context, bearer, resource string) (Principal, error) {
	c, err := v.check(ctx, bearer, resource)
	if err != nil {
		return Principal{}, err
	}
	grant, err := v.grants.Live(ctx, c.GrantID)
	if err != nil {
		return Principal{}, err
	}
	if v.behind(c, grant) {
		if grant, err = v.grants.LiveNow(ctx, c.GrantID); err != nil {
			return Principal{}, err
		}
	}
	// What the token repeats of its grant must agree with it.
	setUp := c.Subject == setupSubject(c.GrantID)
	if string(grant.AgentKey) != c.Subject && !setUp || grant.ClientID != c.ClientID || grant.Resource != resource {
		return Principal{}, refuseToken()
	}
	if err := v.grants.Admits(grant); err != nil {
		return Principal{}, err
	}
	scopes, asked := capped(strings.Fields(c.Scope), grant.Scopes), grant.Asked
	if setUp {
		// Its operator has said since what the connection may do: a token from
		// before there was an agent acts as that agent, as far as its own request
		// asked.
		scopes, asked = capped(c.Asked, grant.Scopes), capped(c.Asked, grant.Asked)
	}
	return Principal{
		AgentKey: grant.AgentKey,
		GrantID:  c.GrantID,
		ClientID: grant.ClientID,
		Operator: grant.Operator,
		Scopes:   scopes,
		Asked:    asked,
		Proposed: grant.Proposed,
		Resource: resource,
	}, nil
}

// justIssued is how old a token is at most that may know more of its grant than
// this process does.
const justIssued = 5 * time.Second

// behind says whether a token of a moment ago has more than its grant, as far as
// is known here: another process may have issued it when the operator had just
// allowed more, or had given the connection its agent. A client that was sent away
// now would think that it got nothing.
func (v *Verifier) behind(c claims, grant domain.Grant) bool {
	if time.Since(c.IssuedAt.Time) > justIssued {
		return false
	}
	unknown := func(scope string) bool { return !domain.ScopesAllow(grant.Scopes, scope) }
	return c.Subject != setupSubject(c.GrantID) && (c.Subject != string(grant.AgentKey) || slices.ContainsFunc(strings.Fields(c.Scope), unknown))
}

// check does all that needs no grant: form, signature, claims and audience.
func (v *Verifier) check(ctx context.Context, bearer, resource string) (claims, error) {
	c, err := v.parse(ctx, bearer)
	if err == nil && c.Audience != resource {
		err = refuseToken()
	}
	return c, err
}

// parse does all that needs neither grant nor resource. A key that is not known
// here may be one that another process has made since.
func (v *Verifier) parse(ctx context.Context, bearer string) (claims, error) {
	if len(bearer) > maxToken {
		return claims{}, refuseToken()
	}
	c, err := v.signed(bearer)
	if errors.Is(err, errUnknownKey) && v.keys.reload(ctx) {
		c, err = v.signed(bearer)
	}
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return claims{}, domain.Refuse(domain.Unauthenticated, "the access token has expired; get a new one")
	case err != nil:
		return claims{}, refuseToken()
	case c.IssuedAt == nil || c.Audience == "" || c.GrantID == "" || strings.TrimSpace(c.Scope) == "":
		return claims{}, refuseToken()
	}
	return c, nil
}

// signed returns what a token says if we signed it and its time is now. Its exact
// bytes are looked up first: see [checked].
func (v *Verifier) signed(bearer string) (claims, error) {
	sum := sha256.Sum256([]byte(bearer))
	if t, ok := v.checked.find(sum); ok && v.keys.ring.Load().verified[t.kid] != nil {
		if t.expired(time.Now()) {
			return claims{}, jwt.ErrTokenExpired
		}
		return t.claims, nil
	}
	var c claims
	token, err := v.parser.ParseWithClaims(bearer, &c, v.key)
	if err != nil {
		return claims{}, err
	}
	kid, _ := token.Header["kid"].(string)
	v.checked.add(sum, checkedToken{c, kid})
	return c, nil
}

var errUnknownKey = errors.New("unknown key")

// key finds the key of a token by its kid, in our own list and nowhere else. A
// header that asks for anything more is refused before any signature is checked:
// tokens of ours have none, and obeying one is how forgeries get in.
func (v *Verifier) key(token *jwt.Token) (any, error) {
	for _, name := range []string{"crit", "jwk", "jku", "x5u", "x5c"} {
		if _, there := token.Header[name]; there {
			return nil, fmt.Errorf("header %s is not allowed", name)
		}
	}
	if token.Header["typ"] != tokenType {
		return nil, errors.New("this is not an access token")
	}
	kid, _ := token.Header["kid"].(string)
	key, listed := v.keys.ring.Load().verified[kid]
	if !listed {
		return nil, errUnknownKey
	}
	return key, nil
}

// refuseToken is the one answer to a token that is not good: it does not help to
// find out why.
func refuseToken() *domain.Error {
	return domain.Refuse(domain.Unauthenticated, "the access token is not valid at this resource; connect again to get one that is")
}
