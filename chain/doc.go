// Package chain knows the constants of the chain a deployment settles on. The
// chain itself, escrow and indexing come to live here.
//
// It must not know tools or views.
package chain

import (
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// DevelopmentID is the chain id of every development deployment.
const DevelopmentID = 735711

// TestUSDDecimals are the decimals of the test token.
const TestUSDDecimals = 6

// TestUSD returns the address of the test token of development deployments. It is
// the first contract of a deployer whose key everybody can derive, so that the
// embedded chain puts it exactly there.
func TestUSD() common.Address {
	key := crypto.ToECDSAUnsafe(crypto.Keccak256([]byte("sidequest: deployer of the embedded chain")))
	return crypto.CreateAddress(crypto.PubkeyToAddress(key.PublicKey), 0)
}
