package oauth

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// MainPath is the resource of requests that name none.
const MainPath = "/mcp"

// resourcePaths are the paths a resource can have, in their canonical spelling.
var resourcePaths = regexp.MustCompile(`^(/mcp|/b/[a-z0-9][a-z0-9-]*/mcp)$`)

// CanonicalPath returns the one spelling of a resource's path, or "" if it can be
// none. Clients change the case of letters and add a slash at the end; both name
// the same resource, but a token is for the canonical name alone.
func CanonicalPath(escaped string) string {
	path := strings.TrimSuffix(strings.ToLower(escaped), "/")
	if !resourcePaths.MatchString(path) {
		return ""
	}
	return path
}

// A Resource is something a token can be for.
type Resource struct {
	URL  string // canonical: the audience of its tokens
	Name string // for people
}

// resource finds what a resource parameter names (RFC 8707 §2); without one it is
// the board main. A parameter that names nothing of ours is not found.
func (s *Server) resource(ctx context.Context, param string) (Resource, bool, error) {
	path := MainPath
	if param != "" {
		u, err := url.Parse(param)
		if err != nil || strings.ContainsAny(param, "?#") || u.User != nil || !strings.EqualFold(u.Scheme+"://"+u.Host, s.Issuer) {
			return Resource{}, false, nil //nolint:nilerr // what does not parse names nothing
		}
		path = CanonicalPath(u.EscapedPath())
	}
	return s.resourceAt(ctx, path)
}

// resourceAt finds the resource at a canonical path.
func (s *Server) resourceAt(ctx context.Context, path string) (Resource, bool, error) {
	if path == "" {
		return Resource{}, false, nil
	}
	name, found, err := s.Exists(ctx, path)
	if err != nil {
		return Resource{}, false, fmt.Errorf("look for the resource %s: %w", path, err)
	}
	return Resource{URL: s.Issuer + path, Name: name}, found, nil
}
