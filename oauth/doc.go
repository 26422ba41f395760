// Package oauth says who is calling: it mints and checks access tokens and keeps
// the grants behind them at hand.
//
// It owns the signing keys, the form of an access token and the memory of all
// grants. It guarantees that
//   - a token is accepted only if this deployment signed it for exactly the
//     resource that is called, and only while its grant is live;
//   - a grant acts in every process as soon as it is opened, and is refused in
//     every process within a second of its revocation;
//   - when a process cannot know whether a grant is live, nothing is allowed.
//
// Access tokens are JWTs of RFC 9068 signed by ES256 (RFC 7518), presented as in
// RFC 6750, for one resource of RFC 8707; keys are named by their thumbprint
// (RFC 7638); the checks follow RFC 8725. The package must not know the market,
// nor how a request arrives.
package oauth
