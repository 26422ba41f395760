package eventstore_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/eventstore/eventstoretest"
)

// register records an operator.
func register(t *testing.T, p process, key string, c domain.RegisterOperator) error {
	t.Helper()
	o := op(t, "system", key, `{}`)
	o.Tool = "register_operator"
	_, err := eventstore.Execute(t.Context(), p.Store, o, c)
	return err
}

// names is a view of operators by their names, made anew from zero each time.
func names(t *testing.T, p process) string {
	t.Helper()
	var all []string
	for _, e := range everything(t, p) {
		if r, ok := e.Event.(domain.OperatorRegistered); ok {
			all = append(all, fmt.Sprintf("%s=%s<%s>", r.Name.Subject, r.Name.Text, r.Email.Text))
		}
	}
	return strings.Join(all, " ")
}

func TestWhatIsPersonalIsReadableUntilItIsErasedAndTheLogStillVerifies(t *testing.T) {
	t.Parallel()
	db := eventstoretest.NewDB(t)
	p := start(t, db, eventstoretest.NewNATS(t))
	if err := p.Begin(t.Context(), eventstore.ShredConsumer); err != nil {
		t.Fatal(err)
	}
	consume(t, p, eventstore.Shredding())
	for key, c := range map[string]domain.RegisterOperator{
		"ann": {OperatorID: "op-ann", Name: "Ann Zwölfer", Email: "ann@zwoelfer.example"},
		"bob": {OperatorID: "op-bob", Name: "Bob Yarrow", Email: "bob@yarrow.example"},
	} {
		if err := register(t, p, key, c); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, p); !strings.Contains(got, "op-ann=Ann Zwölfer<ann@zwoelfer.example>") {
		t.Errorf("before: %s", got)
	}
	key, keys := sealer()
	if _, err := p.Seal(t.Context(), key, 0); err != nil {
		t.Fatal(err)
	}

	o := op(t, "system", "forget ann", `{}`)
	if _, err := eventstore.Execute(t.Context(), p.Store, o, domain.EraseOperator{OperatorID: "op-ann"}); err != nil {
		t.Fatal(err)
	}
	if err := p.AwaitHead(t.Context(), []string{eventstore.ShredConsumer}); err != nil {
		t.Fatal(err)
	}
	got := names(t, p)
	if !strings.Contains(got, "op-ann=<>") || !strings.Contains(got, "op-bob=Bob Yarrow<bob@yarrow.example>") {
		t.Errorf("after: %s", got)
	}
	if _, err := p.Verify(t.Context(), keys, func(int64) {}); err != nil {
		t.Error(err)
	}
	var b bytes.Buffer
	if err := p.Export(t.Context(), &b, keys); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"Zwölfer", "zwoelfer", "Yarrow", "yarrow"} {
		if strings.Contains(b.String(), secret) {
			t.Errorf("the export tells %q", secret)
		}
		for _, where := range dumpLog(t, db) {
			if strings.Contains(where, secret) {
				t.Errorf("the database tells %q: %s", secret, where)
			}
		}
	}
	if err := register(t, p, "ann again", domain.RegisterOperator{OperatorID: "op-ann", Name: "Ann"}); domain.CodeOf(err) != "operator-erased" {
		t.Errorf("a new record of an erased operator: %v", err)
	}
}

func TestSubjectsKeysAreWrappedAnewAndErasedOnesStayErased(t *testing.T) {
	t.Parallel()
	db := eventstoretest.NewDB(t)
	p := start(t, db, eventstoretest.NewNATS(t))
	if err := register(t, p, "ann", domain.RegisterOperator{OperatorID: "op-ann", Name: "Ann"}); err != nil {
		t.Fatal(err)
	}
	if n, err := p.Rewrap(t.Context()); n != 1 || err != nil {
		t.Errorf("wrapped %d anew, %v; want 1", n, err)
	}
	if got := names(t, p); got != "op-ann=Ann<>" {
		t.Errorf("afterwards: %s", got)
	}
}

// dumpLog returns every row of every table of the log as text, with bytes as
// their text.
func dumpLog(t *testing.T, db *eventstoretest.DB) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var all []string
	for _, sql := range []string{
		`SELECT encode(data, 'escape') FROM log.events`,
		`SELECT encode(result, 'escape') || tool || op_key FROM log.operations`,
		`SELECT encode(state, 'escape') FROM log.snapshots`,
	} {
		rows, err := conn.Query(t.Context(), sql)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, lines...)
	}
	return all
}
