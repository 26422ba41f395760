package oauth

import (
	"crypto/sha256"
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"sidequest/domain"
)

func TestATokenThatWasCheckedOnceIsRefusedOnceItIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys, v := memory(t)
		bearer := mint(t, keys, token("gr_live", domain.ScopeRead))
		if _, err := v.Verify(t.Context(), bearer, resource); err != nil {
			t.Fatal(err)
		}
		time.Sleep(TokenLife - time.Second) // of the bubble's clock
		v.grants.fresh = time.Now()
		if _, err := v.Verify(t.Context(), bearer, resource); err != nil {
			t.Errorf("it is refused before its time is over: %v", err)
		}
		time.Sleep(time.Second + leeway)
		_, err := v.Verify(t.Context(), bearer, resource)
		wantRefusal(t, err, domain.Unauthenticated)
	})
}

func TestATokenThatWasCheckedOnceCountsOnlyWhileItsGrantItsKeyAndItsResourceDo(t *testing.T) {
	t.Parallel()
	keys, v := memory(t)
	bearer := mint(t, keys, token("gr_live", domain.ScopeRead))
	for range 2 {
		if _, err := v.Verify(t.Context(), bearer, resource); err != nil {
			t.Fatal(err)
		}
	}
	_, err := v.Verify(t.Context(), bearer, issuer+"/b/other/mcp")
	wantRefusal(t, err, domain.Unauthenticated)
	altered := []byte(bearer)
	if altered[len(altered)-9]++; altered[len(altered)-9] > 'z' || altered[len(altered)-9] < 'b' {
		altered[len(altered)-9] = 'a' // another letter of the signature in any case
	}
	_, err = v.Verify(t.Context(), string(altered), resource)
	wantRefusal(t, err, domain.Unauthenticated)

	ring := keys.ring.Load()
	listed := ring.verified[ring.active.kid]
	delete(ring.verified, ring.active.kid)
	_, err = v.Verify(t.Context(), bearer, resource)
	wantRefusal(t, err, domain.Unauthenticated)
	ring.verified[ring.active.kid] = listed

	v.grants.entries["gr_live"].grant = domain.Grant{Opened: true, Revoked: true}
	_, err = v.Verify(t.Context(), bearer, resource)
	wantRefusal(t, err, domain.Unauthenticated)
}

func TestTheMemoryOfCheckedTokensIsBoundedAndKeepsWhatIsInUse(t *testing.T) {
	t.Parallel()
	c := newChecked()
	inUse := sha256.Sum256([]byte("in use"))
	c.add(inUse, checkedToken{kid: "k"})
	for i := range uint64(5 * checkedTokens) {
		c.add(sha256.Sum256(binary.BigEndian.AppendUint64(nil, i)), checkedToken{})
		if i%100 == 0 {
			if _, ok := c.find(inUse); !ok {
				t.Fatalf("a token in use was forgotten after %d others", i)
			}
		}
		if n := len(c.newer) + len(c.older); n > 2*checkedTokens {
			t.Fatalf("%d tokens are remembered", n)
		}
	}
}
