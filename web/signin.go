package web

import (
	"net/http"

	"sidequest/domain"
	"sidequest/oauth/signin"
)

// home is the front door: operators go on to what is theirs.
func (s *Server) home(w http.ResponseWriter, r *http.Request) error {
	if s.who(r) != nil {
		see(w, r, "/connections")
		return nil
	}
	s.show(w, r, page{Name: "home", Title: "Where software agents hire each other", Body: s.cfg.Origin + "/mcp"})
	return nil
}

// A signInForm is what the pages for signing in show.
type signInForm struct {
	Providers []signin.Provider
	Wallets   bool
	ReturnTo  string

	Link      *signin.Session // of the operator who adds a wallet, nil for a sign-in
	Address   string          // as it was typed
	Fault     string
	Challenge *signin.Challenge
}

func (s *Server) signInForm(r *http.Request) signInForm {
	return signInForm{
		Providers: s.cfg.SignIn.Providers(), Wallets: s.cfg.SignIn.Wallets(), ReturnTo: signin.Destination(r.FormValue("return_to")),
	}
}

func (s *Server) signInPage(w http.ResponseWriter, r *http.Request) error {
	form := s.signInForm(r)
	if s.who(r) != nil {
		see(w, r, form.ReturnTo)
		return nil
	}
	s.show(w, r, page{Name: "sign-in", Title: "Sign in", Body: form})
	return nil
}

func (s *Server) beginSignIn(w http.ResponseWriter, r *http.Request) error {
	location, err := s.cfg.SignIn.Begin(w, r, r.PostForm.Get("provider"), r.PostForm.Get("return_to"), nil)
	if err == nil {
		see(w, r, location)
	}
	return err
}

func (s *Server) finishSignIn(w http.ResponseWriter, r *http.Request) error {
	returnTo, err := s.cfg.SignIn.Finish(w, r, r.PathValue("provider"))
	if err != nil {
		return s.tryAgain(w, r, err)
	}
	see(w, r, returnTo)
	return nil
}

func (s *Server) walletPage(w http.ResponseWriter, r *http.Request) error {
	form := s.signInForm(r)
	if r.FormValue("link") != "" {
		form.Link = s.who(r)
	}
	s.showWallet(w, r, http.StatusOK, form)
	return nil
}

// beginWallet shows the text to sign. A session that is sent along gets the wallet
// added to its operator.
func (s *Server) beginWallet(w http.ResponseWriter, r *http.Request) error {
	form := s.signInForm(r)
	form.Address = r.PostForm.Get("address")
	if r.PostForm.Get("link") != "" {
		if form.Link = s.who(r); form.Link == nil {
			return domain.Refuse(domain.Unauthenticated, "Your session has ended. Sign in again to add a wallet.")
		}
		if err := form.Link.Sent(r.PostForm.Get("csrf")); err != nil {
			return err
		}
	}
	challenge, err := s.cfg.SignIn.BeginWallet(w, r, form.Address, form.ReturnTo, form.Link)
	status := http.StatusOK
	switch refusal := invalid(err); {
	case refusal != nil:
		form.Fault, status = refusal.Message, http.StatusBadRequest
	case err != nil:
		return err
	default:
		form.Challenge = &challenge
	}
	s.showWallet(w, r, status, form)
	return nil
}

func (s *Server) showWallet(w http.ResponseWriter, r *http.Request, status int, form signInForm) {
	title := "Sign in with a wallet"
	if form.Link != nil {
		title = "Add a wallet"
	}
	s.show(w, r, page{Name: "wallet", Status: status, Title: title, Script: "static/wallet.js", Body: form})
}

func (s *Server) finishWallet(w http.ResponseWriter, r *http.Request) error {
	returnTo, err := s.cfg.SignIn.FinishWallet(w, r, r.PostForm.Get("nonce"), r.PostForm.Get("message"), r.PostForm.Get("signature"))
	if err != nil {
		return s.tryAgain(w, r, err)
	}
	see(w, r, returnTo)
	return nil
}

// tryAgain shows why a sign-in failed, and the way to begin anew. Whoever is signed
// in already wanted to add a way to sign in.
func (s *Server) tryAgain(w http.ResponseWriter, r *http.Request, err error) error {
	refusal := refusalOf(err)
	if refusal == nil {
		return err
	}
	status, _ := headline(refusal.Class)
	f := fault{Title: "You are not signed in yet", Message: refusal.Message, Action: &link{Name: "Begin again", Path: "/sign-in"}}
	who := s.who(r)
	if who != nil {
		f.Title, f.Action = "Nothing was added to your account", &link{Name: "Your account", Path: "/account"}
	}
	s.pages.showFault(w, r, who, status, f)
	return nil
}

func (s *Server) signOut(w http.ResponseWriter, r *http.Request, _ signin.Session) error {
	if err := s.cfg.SignIn.SignOut(w, r); err != nil {
		return err
	}
	see(w, r, signin.Destination(r.PostForm.Get("return_to")))
	return nil
}

// An account is what the page about the operator shows.
type account struct {
	Identities []signin.Identity
	Providers  []signin.Provider
	Wallets    bool
	Session    signin.Session
}

func (s *Server) accountPage(w http.ResponseWriter, r *http.Request, session signin.Session) error {
	identities, err := s.cfg.SignIn.Identities(r.Context(), session.Operator.ID)
	if err != nil {
		return err
	}
	s.showOwn(w, r, session, page{Name: "account", Title: "Your account", Body: account{
		identities, s.cfg.SignIn.Providers(), s.cfg.SignIn.Wallets(), session,
	}})
	return nil
}

func (s *Server) signOutEverywhere(w http.ResponseWriter, r *http.Request, session signin.Session) error {
	if err := s.cfg.SignIn.SignOutEverywhere(r.Context(), session.Operator.ID); err != nil {
		return err
	}
	see(w, r, "/")
	return nil
}

func (s *Server) beginLink(w http.ResponseWriter, r *http.Request, session signin.Session) error {
	location, err := s.cfg.SignIn.Begin(w, r, r.PostForm.Get("provider"), "/account", &session)
	if err == nil {
		see(w, r, location)
	}
	return err
}
