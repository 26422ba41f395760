package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// Keys are the key-encryption keys of a deployment. One is current and seals;
// all of them open, so that a key can be replaced while values are in use. They
// follow their file: a key that is added or made current there counts from the
// next value on, without a restart.
type Keys struct {
	path string
	ring atomic.Pointer[keyRing]
}

// A keyRing is what the file held when it was last read.
type keyRing struct {
	current  uint32
	aeads    map[uint32]cipher.AEAD
	modified time.Time // of the file
}

// reload reads the file again if it has changed since. A file that cannot be read
// now leaves the keys as they were: they still open what they sealed.
func (k *Keys) reload() *keyRing {
	ring := k.ring.Load()
	info, err := os.Stat(k.path)
	if err != nil || info.ModTime().Equal(ring.modified) {
		return ring
	}
	newer, err := loadRing(k.path)
	if err != nil {
		return ring
	}
	k.ring.Store(newer)
	return newer
}

// A sealed value is one byte of format, four of key id, then AES-256-GCM with
// its random nonce in front and its tag behind.
const (
	sealFormat = 1
	sealHeader = 1 + 4 // bytes
)

// keyBytes is the length of an AES-256 key.
const keyBytes = 32

// Seal encrypts a value under the current key. It opens only with the same
// purpose and name. One key may seal up to 2^32 values (NIST SP 800-38D, 8.3).
func (k *Keys) Seal(purpose, name string, plaintext []byte) []byte {
	ring := k.reload()
	head := binary.BigEndian.AppendUint32([]byte{sealFormat}, ring.current)
	body := ring.aeads[ring.current].Seal(nil, nil, plaintext, bound(head, purpose, name)) //nolint:gosec // it takes no nonce, since it draws its own
	return append(head, body...)
}

// Open decrypts a sealed value. It fails for another purpose or name, for a key
// that is not listed, and for a value that was altered.
func (k *Keys) Open(purpose, name string, sealed []byte) ([]byte, error) {
	id, err := sealedBy(sealed)
	if err != nil {
		return nil, err
	}
	key, listed := k.ring.Load().aeads[id]
	if !listed {
		key, listed = k.reload().aeads[id]
	}
	if !listed {
		return nil, fmt.Errorf("the value is sealed under key %d, which the key file does not list", id)
	}
	head, body := sealed[:sealHeader], sealed[sealHeader:]
	plaintext, err := key.Open(nil, nil, body, bound(head, purpose, name))
	if err != nil {
		return nil, fmt.Errorf("key %d does not open the value: it was sealed by another key file or for another name, or it was altered", id)
	}
	return plaintext, nil
}

// sealedBy returns the id of the key that sealed a value.
func sealedBy(sealed []byte) (uint32, error) {
	if len(sealed) < sealHeader || sealed[0] != sealFormat {
		return 0, errors.New("this is not a sealed value, or one of a later format")
	}
	return binary.BigEndian.Uint32(sealed[1:]), nil
}

// bound is what a sealed value is tied to. The length keeps a purpose and a name
// from trading letters.
func bound(head []byte, purpose, name string) []byte {
	return fmt.Appendf(slices.Clip(head), "%d:%s%s", len(purpose), purpose, name)
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	if len(key) != keyBytes {
		return nil, fmt.Errorf("a key has %d bytes, not %d", keyBytes, len(key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
