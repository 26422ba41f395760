package secret_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sidequest/secret"
)

func newKeys(t *testing.T) (*secret.Keys, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kek.json")
	keys, err := secret.LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	return keys, path
}

func TestASealedValueOpensWithTheSamePurposeAndName(t *testing.T) {
	t.Parallel()
	keys, path := newKeys(t)
	sealed := keys.Seal("vault", "wallet:ag_1", []byte("a private key"))
	if bytes.Contains(sealed, []byte("private")) {
		t.Error("the sealed value shows what it holds")
	}
	again, err := secret.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := again.Open("vault", "wallet:ag_1", sealed)
	if err != nil || string(got) != "a private key" {
		t.Errorf("open after a restart = %q, %v", got, err)
	}
}

func TestTwoSealsOfOneValueDiffer(t *testing.T) {
	t.Parallel()
	keys, _ := newKeys(t)
	if bytes.Equal(keys.Seal("p", "n", []byte("same")), keys.Seal("p", "n", []byte("same"))) {
		t.Error("equal values have equal seals")
	}
}

func TestASealedValueOpensNowhereElse(t *testing.T) {
	t.Parallel()
	keys, _ := newKeys(t)
	foreign, _ := newKeys(t)
	sealed := keys.Seal("vault", "a", []byte("value"))
	tests := map[string]struct {
		keys          *secret.Keys
		purpose, name string
		sealed        []byte
	}{
		"another name":                 {keys, "vault", "b", sealed},
		"another purpose":              {keys, "cursor", "a", sealed},
		"letters moved to the purpose": {keys, "vaulta", "", sealed},
		"another key file":             {foreign, "vault", "a", sealed},
		"a key that is not listed":     {keys, "vault", "a", replace(sealed, 4, 9)},
		"a later format":               {keys, "vault", "a", replace(sealed, 0, 2)},
		"an altered nonce":             {keys, "vault", "a", replace(sealed, 5, sealed[5]^1)},
		"an altered tag":               {keys, "vault", "a", replace(sealed, len(sealed)-1, sealed[len(sealed)-1]^1)},
		"a value cut in the body":      {keys, "vault", "a", sealed[:len(sealed)-1]},
		"a value cut in the nonce":     {keys, "vault", "a", sealed[:10]},
		"a value cut in the header":    {keys, "vault", "a", sealed[:3]},
		"nothing":                      {keys, "vault", "a", nil},
		"something never sealed":       {keys, "vault", "a", []byte("plain text")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := tt.keys.Open(tt.purpose, tt.name, tt.sealed); err == nil {
				t.Errorf("it opened as %q", got)
			}
		})
	}
}

func replace(b []byte, at int, with byte) []byte {
	c := bytes.Clone(b)
	c[at] = with
	return c
}

func TestTheKeyFileIsForItsOwnerAlone(t *testing.T) {
	t.Parallel()
	_, path := newKeys(t)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("a new key file has mode %04o", mode)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o660, 0o644, 0o620} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		for _, load := range []func(string) (*secret.Keys, error){secret.Load, secret.LoadOrCreate} {
			_, err := load(path)
			if err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) {
				t.Errorf("mode %04o: error = %v, want one that says what to run", mode, err)
			}
		}
	}
}

func TestAMissingKeyFileIsMadeInDevelopmentOnly(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kek.json")
	if _, err := secret.Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("load without a file: error = %v, want one that names it", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("Load made a key file")
	}
	if _, err := secret.LoadOrCreate(path); err != nil {
		t.Error(err)
	}
}

func TestProcessesThatMakeTheKeyFileAtOnceShareOne(t *testing.T) {
	t.Parallel()
	const processes = 8
	path := filepath.Join(t.TempDir(), "kek.json")
	made := make(chan *secret.Keys, processes)
	for range processes {
		go func() {
			keys, err := secret.LoadOrCreate(path)
			if err != nil {
				t.Error(err)
			}
			made <- keys
		}()
	}
	first := <-made
	for range processes - 1 {
		if got, err := (<-made).Open("p", "n", first.Seal("p", "n", []byte("hello"))); err != nil {
			t.Errorf("two processes have different keys: %q, %v", got, err)
		}
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("the folder holds %v, want the key file alone (%v)", left, err)
	}
}

func TestWhatIsNoKeyFileIsRefusedWithoutShowingIt(t *testing.T) {
	t.Parallel()
	const key = "c2lkZXF1ZXN0c2lkZXF1ZXN0c2lkZXF1ZXN0MTIzNDU=" // 32 bytes
	tests := map[string]string{
		"empty":                "",
		"no JSON":              key,
		"no version":           `{"keys":[{"id":1,"key":"` + key + `"}],"current":1}`,
		"a later version":      `{"version":2,"current":1,"keys":[{"id":1,"key":"` + key + `"}]}`,
		"an unknown member":    `{"version":1,"current":1,"keys":[{"id":1,"key":"` + key + `"}],"more":1}`,
		"no keys":              `{"version":1,"current":1,"keys":[]}`,
		"an unlisted current":  `{"version":1,"current":2,"keys":[{"id":1,"key":"` + key + `"}]}`,
		"one id twice":         `{"version":1,"current":1,"keys":[{"id":1,"key":"` + key + `"},{"id":1,"key":"` + key + `"}]}`,
		"id zero":              `{"version":1,"current":0,"keys":[{"id":0,"key":"` + key + `"}]}`,
		"a short key":          `{"version":1,"current":1,"keys":[{"id":1,"key":"c2lkZXF1ZXN0c2lkZXF1ZXN0"}]}`,
		"a key that is no key": `{"version":1,"current":1,"keys":[{"id":1,"key":"` + key + `!"}]}`,
	}
	for name, content := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "kek.json")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := secret.LoadOrCreate(path)
			if err == nil {
				t.Fatal("it was taken for a key file")
			}
			if strings.Contains(err.Error(), "c2lk") || !strings.Contains(err.Error(), path) {
				t.Errorf("error = %v, want one that names the file and shows nothing of it", err)
			}
		})
	}
}

func TestANewKeySealsOnceItIsInUseAndTheOldOneStillOpens(t *testing.T) {
	t.Parallel()
	before, path := newKeys(t)
	old := before.Seal("p", "n", []byte("old"))
	id, err := secret.AddKey(path)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := secret.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := before.Open("p", "n", listed.Seal("p", "n", nil)); err != nil {
		t.Errorf("a key that is only listed already seals: %v", err)
	}
	if err := secret.UseKey(path, id); err != nil {
		t.Fatal(err)
	}
	after, err := secret.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	sealed := after.Seal("p", "n", []byte("new"))
	if _, err := listed.Open("p", "n", sealed); err != nil {
		t.Errorf("a process that was restarted when the key was listed cannot open: %v", err)
	}
	if got, err := before.Open("p", "n", sealed); err != nil || string(got) != "new" {
		t.Errorf("a process that runs since before the key was made opens %q, %v", got, err)
	}
	if by, mine := sealed[:5], before.Seal("p", "n", nil)[:5]; !bytes.Equal(by, mine) {
		t.Error("a process that runs since before the key came into use does not seal with it")
	}
	if got, err := after.Open("p", "n", old); err != nil || string(got) != "old" {
		t.Errorf("open what the old key sealed = %q, %v", got, err)
	}
	if err := secret.UseKey(path, id+1); err == nil {
		t.Error("a key that is not listed came into use")
	}
}
