package secret

import (
	"bytes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// fileFormat is the version of the key file's form.
const fileFormat = 1

// A keyFile is the form of the key file.
type keyFile struct {
	Version int       `json:"version"`
	Current uint32    `json:"current"` // the id of the key that seals
	Keys    []fileKey `json:"keys"`
}

type fileKey struct {
	ID      uint32    `json:"id"` // 1, 2, 3 …
	Created time.Time `json:"created"`
	Key     []byte    `json:"key"` // 32 bytes, base64
}

// Load reads the key file. Only its owner may be able to read it: a file with
// looser permissions than 0600 is refused.
func Load(path string) (*Keys, error) {
	ring, err := loadRing(path)
	if err != nil {
		return nil, err
	}
	k := &Keys{path: path}
	k.ring.Store(ring)
	return k, nil
}

func loadRing(path string) (*keyRing, error) {
	f, modified, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("load the key file: %w", err)
	}
	ring, err := f.ring()
	if err != nil {
		return nil, fmt.Errorf("load the key file %s: %w", path, err)
	}
	ring.modified = modified
	return ring, nil
}

// LoadOrCreate is [Load] after making the file, with one new key, if there is
// none. It is for development: elsewhere a key that is missing must stop the
// program, since a new one opens nothing.
func LoadOrCreate(path string) (*Keys, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = writeFile(path, keyFile{Version: fileFormat, Current: 1, Keys: []fileKey{newKey(1)}}, os.Link)
	}
	// Another process may have been first; then its file is the one.
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("create the key file: %w", err)
	}
	return Load(path)
}

// AddKey lists a new key in the file, without using it yet, and returns its id.
// A key is replaced in three steps: AddKey; [UseKey]; [Vault.Rotate]. Where
// processes have copies of the file, each step goes to all of them before the
// next, so that no process ever meets a value it cannot open. It is for one person
// at a time.
func AddKey(path string) (uint32, error) {
	f, _, err := readFile(path)
	if err != nil {
		return 0, fmt.Errorf("add a key: %w", err)
	}
	id := f.Keys[len(f.Keys)-1].ID + 1
	f.Keys = append(f.Keys, newKey(id))
	if err := writeFile(path, f, os.Rename); err != nil {
		return 0, fmt.Errorf("add a key: %w", err)
	}
	return id, nil
}

// UseKey makes a listed key the one that seals.
func UseKey(path string, id uint32) error {
	f, _, err := readFile(path)
	if err != nil {
		return fmt.Errorf("use key %d: %w", id, err)
	}
	f.Current = id
	if _, err := f.ring(); err != nil {
		return fmt.Errorf("use key %d: %w", id, err)
	}
	if err := writeFile(path, f, os.Rename); err != nil {
		return fmt.Errorf("use key %d: %w", id, err)
	}
	return nil
}

// UseNewest makes the key that was added last the one that seals, and returns its id.
func UseNewest(path string) (uint32, error) {
	f, _, err := readFile(path)
	if err != nil {
		return 0, fmt.Errorf("use the newest key: %w", err)
	}
	id := f.Keys[len(f.Keys)-1].ID
	return id, UseKey(path, id)
}

func newKey(id uint32) fileKey {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // it never fails: crypto/rand ends the program instead
	return fileKey{ID: id, Created: time.Now().UTC().Truncate(time.Second), Key: key}
}

// ring checks the file and makes it ready for use.
func (f keyFile) ring() (*keyRing, error) {
	k := &keyRing{current: f.Current, aeads: map[uint32]cipher.AEAD{}}
	var last uint32
	for _, key := range f.Keys {
		if key.ID <= last {
			return nil, errors.New("the ids of the keys are not in rising order from 1")
		}
		last = key.ID
		aead, err := newAEAD(key.Key)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", key.ID, err)
		}
		k.aeads[key.ID] = aead
	}
	if k.aeads[k.current] == nil {
		return nil, fmt.Errorf("the current key, %d, is not listed", k.current)
	}
	return k, nil
}

// readFile reads the file after making sure that nobody else can.
func readFile(path string) (f keyFile, modified time.Time, err error) {
	file, err := os.Open(path)
	if err != nil {
		return keyFile{}, modified, err // it names the path
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	switch {
	case err != nil:
		return keyFile{}, modified, err
	case !info.Mode().IsRegular():
		return keyFile{}, modified, fmt.Errorf("%s is not a regular file", path)
	case info.Mode().Perm()&0o077 != 0:
		return keyFile{}, modified, fmt.Errorf("%s can be read or changed by other users (mode %04o); run: chmod 600 %s", path, info.Mode().Perm(), path)
	}
	f, err = decodeFile(path, file)
	return f, info.ModTime(), err
}

func decodeFile(path string, r io.Reader) (keyFile, error) {
	const longest = 64 << 10 // bytes
	raw, err := io.ReadAll(io.LimitReader(r, longest))
	if err != nil {
		return keyFile{}, err
	}
	var f keyFile
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		// The decoder's words may quote the file, and the file is secret.
		return keyFile{}, fmt.Errorf("%s is not a key file", path)
	}
	if f.Version != fileFormat || len(f.Keys) == 0 {
		return keyFile{}, fmt.Errorf("%s is not a key file of version %d", path, fileFormat)
	}
	return f, nil
}

// writeFile puts the whole file in place at once, by os.Link if there must be
// none yet or by os.Rename over the old one. It returns when the file would
// survive a power cut, since what is sealed next depends on it.
func writeFile(path string, f keyFile, place func(from, to string) error) error {
	raw, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".kek-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone already after a rename
	_, err = tmp.Write(append(raw, '\n'))
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := place(tmp.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
