package oauth

import (
	"crypto/sha256"
	"sync"
	"time"
)

// checkedTokens is how many tokens each of the two halves of the memory holds, in
// about 600 bytes each.
const checkedTokens = 4096

// checked remembers what tokens say whose signature was found good, because that
// costs more than all the rest of a call. It is bounded, and only tokens that we
// signed get in, so that nobody can fill it with others.
//
// It saves the arithmetic and decides nothing: whether the key is still listed,
// the time has come or passed and the grant lives is looked at in every call.
//
// The newer half fills up; then it becomes the older one. A token that is asked
// for in the older half moves to the newer, so what is in use stays.
type checked struct {
	mu           sync.Mutex
	newer, older map[[sha256.Size]byte]checkedToken
}

// A checkedToken is the claims of a token and the key that signed them.
type checkedToken struct {
	claims claims
	kid    string
}

func newChecked() *checked {
	return &checked{newer: map[[sha256.Size]byte]checkedToken{}}
}

func (c *checked) find(token [sha256.Size]byte) (checkedToken, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t, ok := c.newer[token]; ok {
		return t, true
	}
	t, ok := c.older[token]
	if ok {
		c.put(token, t)
	}
	return t, ok
}

func (c *checked) add(token [sha256.Size]byte, t checkedToken) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(token, t)
}

func (c *checked) put(token [sha256.Size]byte, t checkedToken) {
	if len(c.newer) >= checkedTokens {
		c.older, c.newer = c.newer, make(map[[sha256.Size]byte]checkedToken, checkedTokens)
	}
	c.newer[token] = t
}

// expired says whether the time of a token is over. Its other times lay in the past
// when it was checked.
func (t checkedToken) expired(now time.Time) bool {
	return !now.Before(t.claims.ExpiresAt.Add(leeway))
}
