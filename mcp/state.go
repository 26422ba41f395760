package mcp

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// States seals what a call has to see again when it is repeated with an answer, so
// that the server remembers nothing in between and any copy of it can go on. What
// is sealed opens only for the same principal, endpoint, method, name and
// arguments, and for ever: an operator may take days to decide.
//
// The key is shared by all processes. To replace it, add the new one everywhere,
// then make it current, and keep the old one for as long as its states are to
// open.
type States struct {
	Keys    map[byte][]byte // 32 bytes each, by id
	Current byte            // the id of the key that seals
}

const (
	stateFormat = 1
	maxState    = 4096 // bytes of a requestState, ours being far shorter
)

// stateText is how a state is written: it stands in JSON and in nothing else, and
// there is one way to write each.
var stateText = base64.RawURLEncoding.Strict()

// seal returns a state as the client gets it.
func (s States) seal(bound, state []byte) (string, error) {
	aead, err := s.aead(s.Current)
	if err != nil {
		return "", err
	}
	return stateText.EncodeToString(aead.Seal([]byte{stateFormat, s.Current}, nil, state, bound)), nil //nolint:gosec // it makes a random nonce itself and takes none
}

// open returns what was sealed for the same purpose.
func (s States) open(bound []byte, text string) ([]byte, bool) {
	sealed, err := stateText.DecodeString(text)
	if err != nil || len(sealed) < 2 || sealed[0] != stateFormat {
		return nil, false
	}
	aead, err := s.aead(sealed[1])
	if err != nil {
		return nil, false
	}
	state, err := aead.Open([]byte{}, nil, sealed[2:], bound)
	return state, err == nil
}

// aead returns AES-256-GCM, which puts a random nonce in front of what it seals.
func (s States) aead(id byte) (cipher.AEAD, error) {
	key, known := s.Keys[id]
	if !known || len(key) != 32 {
		return nil, errors.New("seal a state: there is no such key of 32 bytes")
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// binding is what a state of the call is bound to. Arguments count by their value,
// not by how they are written: a client may write them anew.
func (c *Call) binding(principal string) ([]byte, error) {
	arguments := jsontext.Value("{}")
	if k := c.Request.arguments.Kind(); k == '{' || k == '[' {
		arguments = c.Request.arguments.Clone()
		if err := arguments.Canonicalize(); err != nil {
			return nil, InvalidParams("params.arguments has a number that cannot be read.")
		}
	}
	target, _ := text(c.Request.name)
	if c.Request.name == nil {
		target, _ = text(c.Request.uri)
	}
	h := sha256.New()
	for _, part := range []string{"requestState", principal, c.Caller.Resource, c.Request.Method, target, string(arguments)} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return h.Sum(nil), nil
}

// principals are who a state of this caller may belong to, the one that new states
// belong to first. A connection that is being set up has no agent yet; once it
// has, it may still go on with what it began.
func (c Caller) principals() []string {
	grant := "grant " + c.GrantID
	if c.AgentKey == "" {
		return []string{grant}
	}
	return []string{"agent " + string(c.AgentKey), grant}
}
