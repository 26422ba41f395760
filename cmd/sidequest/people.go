package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"time"

	"sidequest/oauth/signin"
	"sidequest/oauth/signin/devidp"
	"sidequest/web"
)

// sweepPace is how often what sign-ins left is removed.
const sweepPace = 5 * time.Minute

// developmentSignIn is the id of the provider that development brings along.
const developmentSignIn = "dev"

// wirePeople makes the parts that operators meet in a browser.
func (p *process) wirePeople(ctx context.Context) (err error) {
	providers := p.cfg.SignIn
	if p.cfg.Development && len(providers) == 0 {
		p.devIDP, err = devidp.New(ctx, devidp.Config{
			Origin: p.cfg.PublicURL, RedirectURI: p.cfg.PublicURL + "/sign-in/callback/" + developmentSignIn,
			DB: p.pool, Vault: p.vault, Now: time.Now, Log: p.log,
		})
		if err != nil {
			return err
		}
		providers = []signin.Provider{{
			ID: developmentSignIn, Name: "a ready-made person", Issuer: p.devIDP.Issuer(), ClientID: devidp.ClientID,
			About: "Development only: no password",
		}}
	}
	p.signIn, err = signin.New(signin.Config{
		DB: p.pool, Store: p.store, Origin: p.cfg.PublicURL, Providers: providers, Wallets: p.cfg.Wallets,
		ChainID: p.cfg.Network.ChainID, ClientIP: p.clientIP, Now: time.Now, Log: p.log,
	})
	if err != nil {
		return err
	}
	p.web, err = web.New(web.Config{
		Origin: p.cfg.PublicURL, SignIn: p.signIn, OAuth: p.access, Store: p.store, DB: p.pool, Hooks: p.hooks, Now: time.Now, Log: p.log,
	})
	if err != nil {
		return err
	}
	p.access.Page = p.web.Page
	return nil
}

// sweepSignIns removes what sign-ins left.
func (p *process) sweepSignIns(ctx context.Context) error {
	p.store.Singly(ctx, "sweep sign-ins", p.name, sweepPace, p.signIn.Sweep)
	return nil
}

var providerShape = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// readSignIn reads the file of sign-in providers. There are secrets in it, so it
// must be unreadable to others, and no fault repeats what it holds.
func readSignIn(c *config, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s holds secrets and others can read it: chmod 600 %[1]s", path)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &c.SignIn); err != nil {
		return errors.New(`give a JSON list such as [{"id":"corp","name":"Corp","issuer":"https://id.corp.example","clientId":"…","clientSecret":"…"}]`)
	}
	seen := map[string]bool{developmentSignIn: true}
	for i, p := range c.SignIn {
		if seen[p.ID] {
			return fmt.Errorf("provider %d: the id %q is taken", i+1, p.ID)
		}
		seen[p.ID] = true
		if err := checkProvider(p); err != nil {
			return fmt.Errorf("provider %d: %w", i+1, err)
		}
	}
	return nil
}

func checkProvider(p signin.Provider) error {
	issuer, err := url.Parse(p.Issuer)
	switch {
	case !providerShape.MatchString(p.ID):
		return errors.New("its id has 1 to 32 of a-z, 0-9 and -")
	case p.Name == "" || len(p.Name) > 60:
		return errors.New("give it a name of up to 60 bytes, as people know it")
	case p.ClientID == "":
		return errors.New("clientId is missing")
	case err != nil || issuer.Host == "" || issuer.RawQuery != "" || issuer.Fragment != "":
		return errors.New("its issuer is a URL without query")
	case issuer.Scheme != "https" && (issuer.Scheme != "http" || !isLoopback(issuer.Hostname())):
		return errors.New("its issuer uses https; http is for loopback addresses only")
	}
	return nil
}

func readWallets(c *config, value string) error {
	switch value {
	case "on", "off":
		c.Wallets = value == "on"
		return nil
	}
	return errors.New("give on or off")
}
