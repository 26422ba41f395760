package main

import (
	"context"
	"crypto/x509"
	"errors"
	"net/url"
	"os"
	"time"

	"sidequest/domain"
	"sidequest/mcp/delivery"
	"sidequest/projections"
	"sidequest/webhook"
)

// newHooks returns what sends webhooks.
func (p *process) newHooks(ctx context.Context, cursors projections.Cursors) (*webhook.Hooks, error) {
	signer, err := webhook.LoadSigner(ctx, p.vault)
	if err != nil {
		return nil, err
	}
	ended, err := delivery.EndedError()
	if err != nil {
		return nil, err
	}
	return webhook.New(webhook.Config{
		DB: p.pool, Store: p.store, Cursors: cursors, ChainID: p.cfg.Network.ChainID, Keys: p.vault.Keys, Signer: signer,
		Outside: p.cfg.Webhooks, Owner: p.name, Grant: p.hookGrant, Ended: ended, Now: time.Now, Log: p.log,
	}), nil
}

// hookGrant says whether deliveries for a grant may be made: it is live and reads,
// and its operator may come to the board.
func (p *process) hookGrant(ctx context.Context, id string) (revoked <-chan struct{}, live bool, err error) {
	grant, err := p.grants.Live(ctx, id)
	if domain.CodeOf(err) == string(domain.Unauthenticated) {
		return nil, false, nil
	}
	live = err == nil && p.grants.Admits(grant) == nil && domain.ScopesAllow(grant.Scopes, domain.ScopeRead)
	return p.grants.Revoked(id), live, err
}

func readWebhookRoots(c *config, path string) error {
	pem, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return err
	}
	if !roots.AppendCertsFromPEM(pem) {
		return errors.New("there is no certificate in it")
	}
	c.Webhooks.Roots = roots
	return nil
}

// readWebhookLoopback comes after the public URL in the table of settings.
func readWebhookLoopback(c *config, value string) error {
	origin, err := url.Parse(c.PublicURL)
	switch {
	case err != nil || value != "on" && value != "off":
		return errors.New("give on or off")
	case value == "on" && origin.Host != "" && !isLoopback(origin.Hostname()):
		return errors.New("a deployment that is public cannot have its subscribers reach into it; leave it off")
	}
	c.Webhooks.Loopback = value == "on"
	return nil
}
