// Package contracts holds what was compiled from the Solidity sources beside it: how
// to call the contracts, and the code that a chain is given.
//
// It guarantees that the artifacts are those of the sources, which make contracts
// checks; building and testing Go needs no Solidity compiler. It must not know
// addresses, nodes or keys.
package contracts

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

//go:embed artifacts/*.json
var artifacts embed.FS

// The names of the contracts.
const (
	Escrow             = "Escrow"
	IdentityRegistry   = "IdentityRegistry"
	ReputationRegistry = "ReputationRegistry"
	SidequestAccount   = "SidequestAccount"
	TestUSD            = "TestUSD"
)

// Names lists every contract.
func Names() []string {
	return []string{Escrow, IdentityRegistry, ReputationRegistry, SidequestAccount, TestUSD}
}

// An Artifact is one compiled contract.
type Artifact struct {
	Name string

	// ABI knows functions, events and errors by name.
	ABI abi.ABI

	// Bytecode creates the contract, followed by the packed arguments of its
	// constructor.
	Bytecode []byte

	// DeployedBytecode is what then stands at its address, but for Immutables, which
	// are zero in it.
	DeployedBytecode []byte
	Immutables       []Range

	sources string // SHA-256 of the sources it was made from
}

// A Range is a stretch of code, in bytes.
type Range struct {
	Start  int `json:"start"`
	Length int `json:"length"`
}

// Load returns the artifact of a contract by its name.
func Load(name string) (Artifact, error) {
	text, err := artifacts.ReadFile("artifacts/" + name + ".json")
	if err != nil {
		return Artifact{}, fmt.Errorf("contract %s: %w", name, err)
	}
	var stored struct {
		ABI              abi.ABI       `json:"abi"`
		Bytecode         hexutil.Bytes `json:"bytecode"`
		DeployedBytecode hexutil.Bytes `json:"deployedBytecode"`
		Immutables       []Range       `json:"immutables"`
		Sources          string        `json:"sources"`
	}
	if err := json.Unmarshal(text, &stored); err != nil {
		return Artifact{}, fmt.Errorf("read the artifact of %s: %w", name, err)
	}
	return Artifact{name, stored.ABI, stored.Bytecode, stored.DeployedBytecode, stored.Immutables, stored.Sources}, nil
}

// IsCode reports whether code, as a node returns it, is that of the contract,
// whatever its constructor was given.
func (a Artifact) IsCode(code []byte) bool {
	if len(code) != len(a.DeployedBytecode) {
		return false
	}
	masked := bytes.Clone(code)
	for _, r := range a.Immutables {
		clear(masked[r.Start : r.Start+r.Length])
	}
	return bytes.Equal(masked, a.DeployedBytecode)
}
