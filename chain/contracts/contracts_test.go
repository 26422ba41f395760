package contracts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
)

func TestEveryContractCanBeDeployedOnAnyChain(t *testing.T) {
	t.Parallel()
	const most = 24576 // bytes of code (EIP-170)
	for _, name := range Names() {
		a := load(t, name)
		if len(a.Bytecode) < len(a.DeployedBytecode) || len(a.DeployedBytecode) == 0 || len(a.DeployedBytecode) > most {
			t.Errorf("%s: %d bytes create %d bytes of code; want 1 to %d", name, len(a.Bytecode), len(a.DeployedBytecode), most)
		}
	}
}

// Without a compiler: the artifacts say from which sources they were made.
func TestArtifactsWereMadeFromTheSourcesThatStandHere(t *testing.T) {
	t.Parallel()
	want := hashOfSources(t)
	for _, name := range Names() {
		if got := load(t, name).sources; got != want {
			t.Errorf("artifacts/%s.json was made from other sources (%s) than these (%s): run make contracts", name, got, want)
		}
	}
}

func hashOfSources(t *testing.T) string {
	t.Helper()
	var files []string
	err := filepath.WalkDir("src", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".sol") {
			files = append(files, filepath.ToSlash(strings.TrimPrefix(path, "src"+string(filepath.Separator))))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	hash := sha256.New()
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join("src", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(hash, "%s %d\n%s", file, len(text), text)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// The figures are those of the contracts that stand on public chains.
func TestRegistriesSpeakERC8004(t *testing.T) {
	t.Parallel()
	identity, reputation := load(t, IdentityRegistry).ABI, load(t, ReputationRegistry).ABI
	selectors := map[string]string{
		"register()": "1aa3a008", "register(string)": "f2c298be", "register(string,(string,bytes)[])": "8ea42286",
		"setAgentURI(uint256,string)": "0af28bd3", "setMetadata(uint256,string,bytes)": "466648da",
		"getMetadata(uint256,string)": "cb4799f2", "setAgentWallet(uint256,address,uint256,bytes)": "2d1ef5ae",
		"getAgentWallet(uint256)": "00339509", "unsetAgentWallet(uint256)": "3fddcf19",
		"isAuthorizedOrOwner(address,uint256)": "d95e72be",
	}
	for signature, want := range selectors {
		if got := selector(identity, signature); got != want {
			t.Errorf("%s has selector %q, want %s", signature, got, want)
		}
	}
	checkTopic(t, identity, "Registered", "ca52e62c", "bc4a")
	checkTopic(t, identity, "MetadataSet", "2c149ed5", "468b")
	checkTopic(t, identity, "URIUpdated", "3a2c7fff", "09fb")
	checkTopic(t, reputation, "NewFeedback", "6a4a6174", "febc")
	checkTopic(t, reputation, "FeedbackRevoked", "25156fd3", "6d09d")
	checkTopic(t, reputation, "ResponseAppended", "b1c6be0b", "51d4")
}

func TestEveryEventOfAJobCarriesItsIDAndItsNumber(t *testing.T) {
	t.Parallel()
	of := 0
	for name, event := range load(t, Escrow).ABI.Events {
		if len(event.Inputs) == 0 || event.Inputs[0].Name != "jobId" {
			continue
		}
		of++
		rest := event.Inputs.NonIndexed()
		if !event.Inputs[0].Indexed || rest[0].Name != "seq" || rest[0].Type.String() != "uint32" {
			t.Errorf("%s does not begin with jobId and seq", name)
		}
	}
	if of != 11 {
		t.Errorf("%d events are of jobs, want 11", of)
	}
}

func TestCodeIsKnownAgainWhateverItsConstructorWasGiven(t *testing.T) {
	t.Parallel()
	a := load(t, TestUSD)
	if len(a.Immutables) == 0 {
		t.Fatal("test USD has no immutables: choose another contract")
	}
	code := slices.Clone(a.DeployedBytecode)
	code[a.Immutables[0].Start] = 0xff
	if !a.IsCode(code) {
		t.Error("other arguments made it other code")
	}
	if code[a.Immutables[0].Start] != 0xff {
		t.Error("asking changed the code")
	}
	code[0]++
	if a.IsCode(code) || a.IsCode(nil) {
		t.Error("other code passed")
	}
}

func TestConstructorsTakeWhatADeploymentHas(t *testing.T) {
	t.Parallel()
	account := common.HexToAddress("0x01")
	type minimums struct{ Review, Dispute, Arbitration uint32 }
	arguments := map[string][]any{
		Escrow:             {account, account, account, minimums{1, 1, 1}},
		IdentityRegistry:   {},
		ReputationRegistry: {account, account},
		SidequestAccount:   {},
		TestUSD:            {account},
	}
	for _, name := range Names() {
		if _, err := load(t, name).ABI.Pack("", arguments[name]...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := load(t, TestUSD).ABI.Pack("mint", account, big.NewInt(1)); err != nil {
		t.Error(err)
	}
}

func TestAnUnknownContractIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := Load("Nonsense"); err == nil {
		t.Error("it was found")
	}
}

func load(t *testing.T, name string) Artifact {
	t.Helper()
	a, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// selector returns the four bytes of a function by its signature; "" if there is none.
func selector(a abi.ABI, signature string) string {
	for _, m := range a.Methods {
		if m.Sig == signature {
			return hex.EncodeToString(m.ID)
		}
	}
	return ""
}

func checkTopic(t *testing.T, a abi.ABI, event, prefix, suffix string) {
	t.Helper()
	topic := hex.EncodeToString(a.Events[event].ID.Bytes())
	if !strings.HasPrefix(topic, prefix) || !strings.HasSuffix(topic, suffix) {
		t.Errorf("%s has topic %s, want %s…%s", event, topic, prefix, suffix)
	}
}
