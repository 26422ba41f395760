package eventstore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"
)

// treeHash is the definition of RFC 6962 §2.1, word for word.
func treeHash(leaves [][]byte) [sha256.Size]byte {
	switch n := len(leaves); n {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return sha256.Sum256(append([]byte{0}, leaves[0]...))
	default:
		k := 1
		for k*2 < n {
			k *= 2
		}
		return parent(treeHash(leaves[:k]), treeHash(leaves[k:]))
	}
}

func TestTheMerkleRootIsThatOfItsDefinition(t *testing.T) {
	t.Parallel()
	var leaves [][]byte
	var m merkle
	for n := range 70 {
		if m.root() != treeHash(leaves) {
			t.Errorf("%d leaves: another root", n)
		}
		leaf := fmt.Appendf(nil, "leaf %d", n)
		leaves = append(leaves, leaf)
		m.add(leaf)
	}
}

func TestTheMerkleRootOfPublishedVectors(t *testing.T) {
	t.Parallel()
	var m merkle
	for i, tt := range []struct{ leaf, root string }{ // from the reference implementation of Certificate Transparency
		{"", "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"},
		{"00", "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"},
		{"10", "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"},
		{"2021", "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"},
	} {
		leaf, err := hex.DecodeString(tt.leaf)
		if err != nil {
			t.Fatal(err)
		}
		m.add(leaf)
		if root := m.root(); hex.EncodeToString(root[:]) != tt.root {
			t.Errorf("after leaf %d: %x, want %s", i, root, tt.root)
		}
	}
}
