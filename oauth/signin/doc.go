// Package signin says who sits at the browser: it lets operators sign in with an
// OpenID provider or a wallet, and keeps their sessions.
//
// It owns sign-in attempts, wallet challenges, the identities that stand for an
// operator, and sessions. It guarantees that
//   - an identity is known by its issuer and subject alone, never by an e-mail
//     address or a name, and stands for one operator;
//   - whoever finishes a sign-in is the browser that began it;
//   - a session has a new secret at every sign-in, ends when it is idle, when it is
//     old, and when its operator says so, in every process at once;
//   - a wallet signs only a text that this deployment wrote, once.
//
// OpenID Connect is that of Core 1.0 with PKCE (RFC 7636) and the issuer check of
// RFC 9207; wallet sign-in is EIP-4361. The package must not know what operators
// do once they are signed in, nor how a page looks.
package signin

// An Operator is a person who is signed in.
type Operator struct {
	ID    string // for ever
	Name  string // as the identity says, bounded and without control characters
	Email string // "" unless the provider has verified it
}

// A Session is one browser in which an operator is signed in.
type Session struct {
	ID       string // names the session; it is no secret and opens nothing
	Operator Operator
	CSRF     string // what a form of this session must send back
}
