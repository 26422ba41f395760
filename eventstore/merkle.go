package eventstore

import "crypto/sha256"

// A merkle computes the tree hash of RFC 6962 §2.1 over a list of leaves, one
// after the other, in memory that grows with the logarithm of their number.
type merkle struct {
	n     uint64
	roots [][sha256.Size]byte // of the complete subtrees, largest first
}

// add appends a leaf.
func (m *merkle) add(leaf []byte) {
	node := sha256.Sum256(append([]byte{0}, leaf...))
	for n := m.n; n&1 == 1; n >>= 1 {
		last := len(m.roots) - 1
		node = parent(m.roots[last], node)
		m.roots = m.roots[:last]
	}
	m.roots = append(m.roots, node)
	m.n++
}

// root returns the hash over all leaves so far.
func (m *merkle) root() [sha256.Size]byte {
	if len(m.roots) == 0 {
		return sha256.Sum256(nil)
	}
	node := m.roots[len(m.roots)-1]
	for i := len(m.roots) - 2; i >= 0; i-- {
		node = parent(m.roots[i], node)
	}
	return node
}

func parent(left, right [sha256.Size]byte) [sha256.Size]byte {
	return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
}
