package web

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"sidequest/domain"
	"sidequest/eventstore"
	"sidequest/oauth"
	"sidequest/oauth/signin"
	"sidequest/projections"
	"sidequest/webhook"

	"github.com/jackc/pgx/v5/pgxpool"
)

// maxForm bounds the body of a form, in bytes.
const maxForm = 64 << 10

// A Server answers what operators open in a browser. Make one with [New].
type Server struct {
	cfg       Config
	pages     *Pages
	documents documents
	origin    *url.URL
	sites     *http.CrossOriginProtection
}

// A Config is what a server needs.
type Config struct {
	Origin string // of the deployment, without a slash at the end
	SignIn *signin.Service
	OAuth  *oauth.Server
	Store  *eventstore.Store // where what operators decide is recorded
	DB     *pgxpool.Pool     // with the views
	Hooks  *webhook.Hooks
	Now    func() time.Time
	Log    *slog.Logger
}

// New returns a server.
func New(cfg Config) (*Server, error) {
	origin, err := url.Parse(cfg.Origin)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, origin: origin, sites: http.NewCrossOriginProtection()}
	if err := s.sites.AddTrustedOrigin(cfg.Origin); err != nil {
		return nil, err
	}
	if s.pages, err = NewPages(cfg.Log); err != nil {
		return nil, err
	}
	if s.documents, err = s.drawDocuments(); err != nil {
		return nil, err
	}
	return s, nil
}

// Routes adds the pages.
func (s *Server) Routes(mux *http.ServeMux) {
	Assets(mux)
	s.documentRoutes(mux)
	mux.HandleFunc("GET /{$}", s.open(s.home))
	mux.HandleFunc("GET /sign-in", s.open(s.signInPage))
	mux.HandleFunc("POST /sign-in", s.open(s.beginSignIn))
	mux.HandleFunc("GET /sign-in/callback/{provider}", s.open(s.finishSignIn))
	mux.HandleFunc("GET /sign-in/wallet", s.open(s.walletPage))
	mux.HandleFunc("POST /sign-in/wallet", s.open(s.beginWallet))
	mux.HandleFunc("POST /sign-in/wallet/signature", s.open(s.finishWallet))
	mux.HandleFunc("POST /sign-out", s.own(s.signOut))
	mux.HandleFunc("GET /account", s.own(s.accountPage))
	mux.HandleFunc("POST /account/sign-out-everywhere", s.own(s.signOutEverywhere))
	mux.HandleFunc("POST /account/link", s.own(s.beginLink))
	mux.HandleFunc("GET /consent/{id}", s.own(s.consentPage))
	mux.HandleFunc("POST /consent/{id}", s.own(s.decideConsent))
	mux.HandleFunc("GET /connections", s.own(s.connectionsPage))
	mux.HandleFunc("POST /connections/{id}/scopes", s.own(s.changeConnection))
	mux.HandleFunc("POST /connections/{id}/end", s.own(s.endConnection))
	mux.HandleFunc("GET /agents", s.own(s.agentsPage))
	mux.HandleFunc("GET /agents/{key}", s.own(s.agentPage))
	mux.HandleFunc("POST /agents/{key}/roles", s.own(s.setRoles))
	mux.HandleFunc("GET /deliveries", s.own(s.deliveriesPage))
	mux.HandleFunc("GET /deliveries/{id}", s.own(s.deliveryPage))
	mux.HandleFunc("POST /deliveries/{id}/pause", s.own(s.pauseDelivery))
	mux.HandleFunc("POST /deliveries/{id}/redeliver", s.own(s.redeliver))
	mux.HandleFunc("GET /approvals", s.own(s.approvalsPage))
	mux.HandleFunc("GET /approve/{id}", s.own(s.approvePage))
	mux.HandleFunc("POST /approve/{id}", s.own(s.decide))
}

// open serves a page for everyone. A form counts only if it comes from a page of
// this deployment.
func (s *Server) open(do func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.elsewhere(r) {
			http.Redirect(w, r, s.cfg.Origin+r.URL.RequestURI(), http.StatusTemporaryRedirect) //nolint:gosec // a path of our own origin
			return
		}
		if err := s.admit(w, r); err != nil {
			s.fail(w, r, err)
			return
		}
		if err := do(w, r); err != nil {
			s.fail(w, r, err)
		}
	}
}

// own serves a page for an operator who is signed in, and sends others to sign in
// first. A form counts only if it was made for the session it comes from.
func (s *Server) own(do func(http.ResponseWriter, *http.Request, signin.Session) error) http.HandlerFunc {
	return s.open(func(w http.ResponseWriter, r *http.Request) error {
		session, signedIn, err := s.cfg.SignIn.Current(r)
		switch {
		case err != nil:
			return err
		case !signedIn && r.Method == http.MethodGet:
			see(w, r, "/sign-in?"+url.Values{"return_to": {r.URL.RequestURI()}}.Encode())
			return nil
		case !signedIn:
			return domain.Refuse(domain.Unauthenticated, "Your session has ended, and nothing was changed. Sign in and repeat what you meant to do.")
		}
		if r.Method == http.MethodPost {
			if err := session.Sent(r.PostForm.Get("csrf")); err != nil {
				return err
			}
		}
		return do(w, r, session)
	})
}

// admit reads the form of a request that changes something, unless another site
// made the browser send it.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return nil
	}
	if err := s.sites.Check(r); err != nil {
		return domain.Refuse(domain.Forbidden, "This form was sent by another site, so nothing was changed.")
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil || !legible(r.PostForm) {
		return domain.Refuse(domain.Invalid, "This form cannot be read.")
	}
	return nil
}

// legible says whether a form is text, which a zero byte never is.
func legible(form url.Values) bool {
	for _, values := range form {
		for _, text := range values {
			if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
				return false
			}
		}
	}
	return true
}

// elsewhere says whether a browser on this machine came by another of its names.
// Cookies belong to one name, and providers send people back to that of the origin.
func (s *Server) elsewhere(r *http.Request) bool {
	return r.Host != s.origin.Host && isLoopback(s.origin.Hostname()) && isLoopback((&url.URL{Host: r.Host}).Hostname())
}

// see sends the browser on, after a form too, as a new request without the form.
// The path is ours, or a place that signin or oauth has checked.
func see(w http.ResponseWriter, r *http.Request, path string) {
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, path, http.StatusSeeOther) //nolint:gosec // see above
}

// who returns the session of a request for the layout. Whoever cannot be found out
// about is nobody here.
func (s *Server) who(r *http.Request) *signin.Session {
	session, signedIn, err := s.cfg.SignIn.Current(r)
	if err != nil || !signedIn {
		return nil
	}
	return &session
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	s.pages.fail(w, r, s.who(r), err)
}

// Page shows a refusal of the authorization server to a person.
func (s *Server) Page(w http.ResponseWriter, r *http.Request, status int, e *domain.Error) {
	_, title := headline(e.Class)
	if e.Class == domain.Invalid {
		title = "This connection cannot be made"
	}
	s.pages.showFault(w, r, s.who(r), status, fault{Title: title, Message: sentence(e.Message)})
}

// show answers with a page for everyone.
func (s *Server) show(w http.ResponseWriter, r *http.Request, pg page) {
	pg.Who, pg.Public = s.who(r), true
	s.pages.show(w, r, pg)
}

// showOwn answers with a page for one operator, and tells how many questions wait.
func (s *Server) showOwn(w http.ResponseWriter, r *http.Request, session signin.Session, pg page) {
	waits, err := projections.OpenApprovals(r.Context(), s.cfg.DB, session.Operator.ID)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	pg.Who, pg.Waits = &session, waits
	s.pages.show(w, r, pg)
}
