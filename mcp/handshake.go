package mcp

import (
	"context"
	"maps"
	"slices"
	"time"
)

// handshakeTTL is how long a client may keep what server/discover answers.
const handshakeTTL = 5 * time.Minute

// method finds a method: those of the handshake are the server's own.
func (s *Server) method(name string) (Method, bool) {
	switch name {
	case "server/discover":
		return Method{Handle: s.discover, AllowedInSetup: true, ModernOnly: true, Cacheable: true, TTL: handshakeTTL}, true
	case "initialize":
		return Method{Handle: s.initialize, AllowedInSetup: true, LegacyOnly: true}, true
	case "subscriptions/listen":
		return Method{Handle: s.listen, AllowedInSetup: true, ModernOnly: true, Stream: true}, s.Listening != nil
	case "ping":
		return Method{Handle: pong, AllowedInSetup: true, LegacyOnly: true}, true
	}
	m, ok := s.Methods[name]
	return m, ok
}

// none is a capability or extension without settings.
type none struct{}

// capabilities say what works, which is what has a method. Nothing that depends
// on a session is claimed, unless there is a method for it.
type capabilities struct {
	Tools       *listCapability `json:"tools,omitzero"`
	Resources   *listCapability `json:"resources,omitzero"`
	Prompts     *listCapability `json:"prompts,omitzero"`
	Completions *none           `json:"completions,omitzero"`
	Logging     *none           `json:"logging,omitzero"`
	Events      *none           `json:"events,omitzero"`
	Extensions  map[string]any  `json:"extensions,omitzero"`
}

// A listCapability says whether clients can hear of changes.
type listCapability struct {
	ListChanged bool `json:"listChanged,omitzero"`
	Subscribe   bool `json:"subscribe,omitzero"`
}

// capabilities returns those of an era. The events extension is named twice:
// some clients look for it among the capabilities only, in either era.
func (s *Server) capabilities(l Lane) capabilities {
	var changes Listening
	if l.Modern() && s.Listening != nil {
		changes.Tools, changes.Prompts, changes.Resources = s.Listening.Tools, s.Listening.Prompts, s.Listening.Resources
	}
	c := capabilities{
		Tools:       s.list("tools/list", changes.Tools != nil, false),
		Resources:   s.list("resources/list", changes.Resources != nil, !l.Modern() && s.offers("resources/subscribe") != nil),
		Prompts:     s.list("prompts/list", changes.Prompts != nil, false),
		Completions: s.offers("completion/complete"),
		Logging:     s.offers("logging/setLevel"),
		Events:      s.offers("events/list"),
	}
	if !l.Modern() {
		return c
	}
	c.Extensions = maps.Clone(s.Extensions)
	if c.Events != nil {
		if c.Extensions == nil {
			c.Extensions = map[string]any{}
		}
		c.Extensions["io.modelcontextprotocol/events"] = none{}
	}
	return c
}

// offers returns a capability without settings if there is the method it needs.
func (s *Server) offers(method string) *none {
	if _, ok := s.Methods[method]; ok {
		return &none{}
	}
	return nil
}

func (s *Server) list(method string, changes, subscribe bool) *listCapability {
	if s.offers(method) == nil {
		return nil
	}
	return &listCapability{changes, subscribe}
}

// discover answers server/discover; the identity is added to it as to every
// modern result.
func (s *Server) discover(_ context.Context, c *Call) (any, error) {
	return struct {
		SupportedVersions []string     `json:"supportedVersions"`
		Capabilities      capabilities `json:"capabilities"`
		Instructions      string       `json:"instructions"`
	}{supportedVersions(), s.capabilities(c.Lane), Instructions(s.BaseURL)}, nil
}

// initialize answers with the requested revision if it is a legacy one, else with
// the newest of those. Nothing is kept.
func (s *Server) initialize(_ context.Context, c *Call) (any, error) {
	var params struct {
		ProtocolVersion *string `json:"protocolVersion"`
	}
	if err := c.Request.Decode(&params); err != nil {
		return nil, err
	}
	if params.ProtocolVersion == nil {
		return nil, InvalidParams("params.protocolVersion is required.")
	}
	version := *params.ProtocolVersion
	if version == V20260728 || !slices.Contains(supportedVersions(), version) {
		version = V20251125
	}
	return struct {
		ProtocolVersion string         `json:"protocolVersion"`
		Capabilities    capabilities   `json:"capabilities"`
		ServerInfo      Implementation `json:"serverInfo"`
		Instructions    string         `json:"instructions"`
	}{version, s.capabilities(c.Lane), Identity(), Instructions(s.BaseURL)}, nil
}

func pong(context.Context, *Call) (any, error) { return none{}, nil }
