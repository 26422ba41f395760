package secret_test

import (
	"crypto/rand"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/eventstore/eventstoretest"
	"sidequest/secret"
)

func newPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), eventstoretest.NewDB(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func random() ([]byte, error) { return []byte(rand.Text()), nil }

func TestANameHasOneSecretForEver(t *testing.T) {
	t.Parallel()
	keys, path := newKeys(t)
	pool := newPool(t)
	first, err := secret.Vault{Pool: pool, Keys: keys}.GetOrCreate(t.Context(), "a", random)
	if err != nil {
		t.Fatal(err)
	}
	restarted, err := secret.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	vault := secret.Vault{Pool: pool, Keys: restarted}
	again, err := vault.GetOrCreate(t.Context(), "a", random)
	if err != nil || string(again) != string(first) {
		t.Errorf("after a restart it is %q, %v; it was %q", again, err, first)
	}
	other, err := vault.GetOrCreate(t.Context(), "b", random)
	if err != nil || string(other) == string(first) {
		t.Errorf("another name has %q, %v", other, err)
	}
}

func TestProcessesThatMakeASecretAtOnceShareOne(t *testing.T) {
	t.Parallel()
	const processes = 16
	keys, _ := newKeys(t)
	vault := secret.Vault{Pool: newPool(t), Keys: keys}
	got := make(chan string, processes)
	for range processes {
		go func() {
			value, err := vault.GetOrCreate(t.Context(), "a", random)
			if err != nil {
				t.Error(err)
			}
			got <- string(value)
		}()
	}
	first := <-got
	for range processes - 1 {
		if other := <-got; other != first {
			t.Errorf("one process has %q, another %q", first, other)
		}
	}
}

func TestASecretThatCannotBeMadeIsNotKept(t *testing.T) {
	t.Parallel()
	keys, _ := newKeys(t)
	vault := secret.Vault{Pool: newPool(t), Keys: keys}
	broken := errors.New("no entropy")
	_, err := vault.GetOrCreate(t.Context(), "a", func() ([]byte, error) { return nil, broken })
	if !errors.Is(err, broken) {
		t.Errorf("error = %v", err)
	}
	if value, err := vault.GetOrCreate(t.Context(), "a", random); err != nil || len(value) == 0 {
		t.Errorf("the next attempt = %q, %v", value, err)
	}
}

func TestARowCopiedOverAnotherDoesNotOpen(t *testing.T) {
	t.Parallel()
	keys, _ := newKeys(t)
	vault := secret.Vault{Pool: newPool(t), Keys: keys}
	for _, name := range []string{"a", "b"} {
		if _, err := vault.GetOrCreate(t.Context(), name, random); err != nil {
			t.Fatal(err)
		}
	}
	_, err := vault.Pool.Exec(t.Context(), `
		UPDATE auth.secrets
		SET sealed = (SELECT sealed FROM auth.secrets WHERE name = 'a')
		WHERE name = 'b'`)
	if err != nil {
		t.Fatal(err)
	}
	if value, err := vault.GetOrCreate(t.Context(), "b", random); err == nil {
		t.Errorf("b opened as %q, a secret of a", value)
	}
}

func TestAnotherKeyFileMakesNoSecretAnew(t *testing.T) {
	t.Parallel()
	keys, _ := newKeys(t)
	foreign, _ := newKeys(t)
	pool := newPool(t)
	if _, err := (secret.Vault{Pool: pool, Keys: keys}).GetOrCreate(t.Context(), "a", random); err != nil {
		t.Fatal(err)
	}
	_, err := secret.Vault{Pool: pool, Keys: foreign}.GetOrCreate(t.Context(), "a", random)
	if err == nil || !strings.Contains(err.Error(), "another key file") {
		t.Errorf("error = %v, want one that says what may be wrong", err)
	}
}

func TestRotationSealsEverySecretAnewAndLosesNone(t *testing.T) {
	t.Parallel()
	keys, path := newKeys(t)
	pool := newPool(t)
	before := map[string]string{"a": "", "b": "", "c": ""}
	for name := range before {
		value, err := secret.Vault{Pool: pool, Keys: keys}.GetOrCreate(t.Context(), name, random)
		if err != nil {
			t.Fatal(err)
		}
		before[name] = string(value)
	}
	id, err := secret.AddKey(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := secret.UseKey(path, id); err != nil {
		t.Fatal(err)
	}
	rotated, err := secret.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	vault := secret.Vault{Pool: pool, Keys: rotated}
	for _, want := range []int{3, 0} {
		if n, err := vault.Rotate(t.Context()); n != want || err != nil {
			t.Errorf("rotate = %d, %v; want %d", n, err, want)
		}
	}
	for name, want := range before {
		if got, err := vault.GetOrCreate(t.Context(), name, random); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; it was %q", name, got, err, want)
		}
	}
	if got, err := (secret.Vault{Pool: pool, Keys: keys}).GetOrCreate(t.Context(), "a", random); err != nil || string(got) != before["a"] {
		t.Errorf("a process that ran all the while reads %q, %v", got, err)
	}
	stranger, err := secret.LoadOrCreate(filepath.Join(t.TempDir(), "kek.json"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (secret.Vault{Pool: pool, Keys: stranger}).GetOrCreate(t.Context(), "a", random); err == nil {
		t.Error("a key file without the new key opens a rotated secret")
	}
}

func TestTheProgramsRoleCannotRenameOrRemoveASecret(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	for _, sql := range []string{
		`UPDATE auth.secrets SET name = 'b'`,
		`UPDATE auth.secrets SET created_at = now()`,
		`DELETE FROM auth.secrets`,
		`TRUNCATE auth.secrets`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s was allowed", sql)
		}
	}
}

func TestProcessesThatChangeASecretAtOnceLoseNoChange(t *testing.T) {
	t.Parallel()
	const processes = 8
	keys, _ := newKeys(t)
	vault := secret.Vault{Pool: newPool(t), Keys: keys}
	if _, err := vault.GetOrCreate(t.Context(), "a", func() ([]byte, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, processes)
	for range processes {
		go func() {
			ended <- vault.Update(t.Context(), "a", func(value []byte) ([]byte, error) { return append(value, 'x'), nil })
		}()
	}
	for range processes {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	broken := errors.New("no change")
	if err := vault.Update(t.Context(), "a", func([]byte) ([]byte, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("a change that fails: %v", err)
	}
	if err := vault.Update(t.Context(), "b", func(value []byte) ([]byte, error) { return value, nil }); err == nil {
		t.Error("a secret that is not there was changed")
	}
	if value, err := vault.GetOrCreate(t.Context(), "a", random); err != nil || string(value) != strings.Repeat("x", processes) {
		t.Errorf("it is %q, %v", value, err)
	}
}
