package eventstore_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sidequest/eventstore"
	"sidequest/eventstore/eventstoretest"
)

// sealer returns a key pair that is the same in every test.
func sealer() (ed25519.PrivateKey, map[string]ed25519.PublicKey) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	public := key.Public().(ed25519.PublicKey)
	return key, map[string]ed25519.PublicKey{eventstore.KeyID(public): public}
}

// story writes a small log of several streams with a refusal and two seals.
func story(t *testing.T, p process) {
	t.Helper()
	key, _ := sealer()
	for i := range 30 {
		if _, err := count(t, p, "ann", fmt.Sprint("k", i), Count{ID: fmt.Sprint(i % 3), By: 1, Times: 1 + i%2, Note: "naïve <b>&\u2028"}); err != nil {
			t.Fatal(err)
		}
		if i == 20 {
			if _, err := p.Seal(t.Context(), key, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := count(t, p, "ann", "full", Count{ID: "a", By: 5, Limit: 3}); err == nil {
		t.Fatal("not refused")
	}
	if seal, err := p.Seal(t.Context(), key, 0); err != nil || seal.Seq != 2 || seal.To != 45 {
		t.Fatalf("%+v, %v; want the second seal, up to position 45", seal, err)
	}
	if _, err := count(t, p, "ann", "late", Count{ID: "0", By: 1}); err != nil {
		t.Fatal(err)
	}
}

func export(t *testing.T, p process) string {
	t.Helper()
	_, keys := sealer()
	var b bytes.Buffer
	if err := p.Export(t.Context(), &b, keys); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func verifyExport(text string) (*eventstore.Verifier, error) {
	x, err := eventstore.OpenExport(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	return x.Verify(nil)
}

func TestAnExportVerifiesOfflineAndImportsByteForByte(t *testing.T) {
	t.Parallel()
	ns := eventstoretest.NewNATS(t)
	p := start(t, eventstoretest.NewDB(t), ns)
	story(t, p)
	first := export(t, p)

	v, err := verifyExport(first)
	if err != nil {
		t.Fatal(err)
	}
	if events, seals := v.Verified(); events != 46 || seals != 2 {
		t.Errorf("verified %d events and %d seals, want 46 and 2", events, seals)
	}

	q := start(t, eventstoretest.NewDB(t), ns)
	x, err := eventstore.OpenExport(strings.NewReader(first))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Import(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	if second := export(t, q); second != first {
		t.Error("the import exports differently")
	}
	_, keys := sealer()
	if _, err := q.Verify(t.Context(), keys, func(int64) {}); err != nil {
		t.Error(err)
	}
	// The copy goes on where the original stood, receipts included.
	if r, err := count(t, q, "ann", "k3", Count{ID: "0", By: 1, Times: 2}); err != nil || !r.Replayed {
		t.Errorf("a repeat on the copy: %+v, %v", r, err)
	}
	if r, err := count(t, q, "ann", "new", Count{ID: "0", By: 1}); err != nil || string(r.Result) != `{"n":17}` {
		t.Errorf("a new write on the copy: %s, %v", r.Result, err)
	}
	again, err := eventstore.OpenExport(strings.NewReader(first))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Import(t.Context(), again); err == nil {
		t.Error("an import into a log that is not empty is not refused")
	}
}

func TestVerifyNamesTheFirstEventThatDoesNotFit(t *testing.T) {
	t.Parallel()
	p := start(t, eventstoretest.NewDB(t), eventstoretest.NewNATS(t))
	story(t, p)
	lines := strings.SplitAfter(export(t, p), "\n")
	const head = 3 // the head of the export and two seals
	change := func(at int64, old, changed string) func([]string) []string {
		return func(l []string) []string {
			if !strings.Contains(l[head+at-1], old) {
				t.Errorf("position %d has no %q: %s", at, old, l[head+at-1])
			}
			l[head+at-1] = strings.Replace(l[head+at-1], old, changed, 1)
			return l
		}
	}
	for name, tt := range map[string]struct {
		at     int64
		tamper func([]string) []string
	}{
		"data":            {7, change(7, `"by":1`, `"by":2`)},
		"the actor":       {7, change(7, `"actor":"ann"`, `"actor":"bob"`)},
		"the time":        {8, change(8, `"at":"20`, `"at":"21`)},
		"the board":       {9, change(9, `"board":"main"`, `"board":"side"`)},
		"the type":        {10, change(10, `"tally.counted"`, `"tally.erased"`)},
		"an event gone":   {13, func(l []string) []string { return append(l[:head+11:head+11], l[head+12:]...) }},
		"an event twice":  {12, func(l []string) []string { return append(l[:head+12:head+12], l[head+11:]...) }},
		"two exchanged":   {6, func(l []string) []string { l[head+4], l[head+5] = l[head+5], l[head+4]; return l }},
		"the end cut off": {46, func(l []string) []string { return append(l[:head+40:head+40], l[len(l)-31:]...) }},
		"a seal's root":   {31, func(l []string) []string { l[1] = strings.Replace(l[1], `"root":"`, `"root":"00`, 1); return l }},
		"a seal gone":     {46, func(l []string) []string { return append(l[:1:1], l[2:]...) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := verifyExport(strings.Join(tt.tamper(append([]string{}, lines...)), ""))
			misfit, ok := errors.AsType[*eventstore.Misfit](err)
			switch {
			case !ok:
				t.Errorf("%v, want a misfit", err)
			case name == "the end cut off" || strings.HasPrefix(name, "a seal"): // the seal does not fit, wherever it is noticed
			case misfit.Position != tt.at:
				t.Errorf("%v, want position %d", err, tt.at)
			}
		})
	}
}

func TestVerifyFindsWhatTheOwnerOfTheTablesChanged(t *testing.T) {
	t.Parallel()
	db := eventstoretest.NewDB(t)
	p := start(t, db, eventstoretest.NewNATS(t))
	story(t, p)
	_, keys := sealer()
	if _, err := p.Verify(t.Context(), nil, func(int64) {}); err == nil {
		t.Error("a seal of an unknown key verifies")
	}
	owner, err := pgx.Connect(t.Context(), db.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close(t.Context())
	for _, sql := range []string{
		`ALTER TABLE log.events DISABLE TRIGGER USER`,
		`UPDATE log.events SET data = convert_to('{"by":1000}', 'UTF8') WHERE pos = 17`,
	} {
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	_, err = p.Verify(t.Context(), keys, func(int64) {})
	if misfit, ok := errors.AsType[*eventstore.Misfit](err); !ok || misfit.Position != 17 {
		t.Errorf("%v, want a misfit at position 17", err)
	}
}

func TestEachDayThatIsOverGetsASeal(t *testing.T) {
	t.Parallel()
	p := start(t, eventstoretest.NewDB(t), eventstoretest.NewNATS(t))
	key, keys := sealer()
	for i := range 5 {
		if _, err := count(t, p, "ann", fmt.Sprint("k", i), Count{ID: "a", By: 1}); err != nil {
			t.Fatal(err)
		}
	}
	sealed := func() int {
		t.Helper()
		v, err := p.Verify(t.Context(), keys, func(int64) {})
		if err != nil {
			t.Fatal(err)
		}
		_, seals := v.Verified()
		return seals
	}
	if err := p.SealDays(t.Context(), key, time.Now()); err != nil || sealed() != 0 {
		t.Errorf("%v, %d seals before the day is over", err, sealed())
	}
	for range 2 {
		if err := p.SealDays(t.Context(), key, time.Now().Add(48*time.Hour)); err != nil || sealed() != 1 {
			t.Errorf("%v, %d seals after the day is over, want 1", err, sealed())
		}
	}
}
