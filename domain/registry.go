package domain

import (
	"encoding/json"
	"slices"
	"strconv"
)

// registryID is the id of the one registry.
const registryID = "agents"

// A Registry hands out agent ids 1, 2, 3 … and tells who holds one. It stands in
// for the identity registry on chain (ERC-8004).
//
//	(none) ──agent_numbered──▶ one agent ──agent_numbered──▶ two agents …
type Registry struct {
	count  int
	newest *registryEntry
}

// A registryEntry links to the entry before it, so that states share their past
// instead of copying it at every event.
type registryEntry struct {
	AgentNumbered
	before *registryEntry
}

// Registries is the category of the one registry.
var Registries = Category[Registry]{Name: "registry", Events: []Event[Registry]{AgentNumbered{}}, SnapshotForm: 1}

// Find returns the agent with an id, or false.
func (r Registry) Find(id AgentID) (Party, bool) {
	for e := r.newest; e != nil; e = e.before {
		if e.AgentID == id {
			return Party{e.AgentKey, e.AgentID, e.Wallet}, true
		}
	}
	return Party{}, false
}

// MarshalJSON writes the entries, newest first.
func (r Registry) MarshalJSON() ([]byte, error) {
	entries := make([]AgentNumbered, 0, r.count)
	for e := r.newest; e != nil; e = e.before {
		entries = append(entries, e.AgentNumbered)
	}
	return json.Marshal(entries)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Registry) UnmarshalJSON(data []byte) error {
	var entries []AgentNumbered
	if err := json.Unmarshal(data, &entries); err != nil {
		return err
	}
	*r = Registry{}
	for _, e := range slices.Backward(entries) {
		*r = e.Apply(*r)
	}
	return nil
}

func (r Registry) next() AgentID { return AgentID(strconv.Itoa(r.count + 1)) }

// AgentNumbered gives an agent its public number.
type AgentNumbered struct {
	AgentKey AgentKey `json:"agentKey"`
	AgentID  AgentID  `json:"agentId"`
	Wallet   Address  `json:"wallet"`
	Name     string   `json:"name"`
}

// EventType implements [Event].
func (AgentNumbered) EventType() string { return "registry.agent_numbered" }

// Apply implements [Event].
func (e AgentNumbered) Apply(r Registry) Registry {
	return Registry{r.count + 1, &registryEntry{e, r.newest}}
}
