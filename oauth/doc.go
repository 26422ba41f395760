// Package oauth says who is calling: it is the authorization server, and it checks
// the access tokens that server issued.
//
// It owns clients, authorization requests, codes, refresh tokens, signing keys, the
// form of an access token and the memory of all grants. It guarantees that
//   - nobody gets access but by the consent of a signed-in operator, through S256
//     and to a redirect URI of the client that asked;
//   - codes and refresh tokens are good once, and whoever uses one again ends the
//     access, unless it is the repeat of a moment ago;
//   - a token is accepted only if this deployment signed it for exactly the
//     resource that is called, and only while its grant is live;
//   - a grant acts in every process as soon as it is opened, and is refused in
//     every process within a second of its revocation;
//   - where a board is private, the access of operators who are not its members is
//     refused, in every process within a second;
//   - when a process cannot know whether a grant is live, nothing is allowed;
//   - all processes of a deployment are one server.
//
// It is OAuth 2.1 with the metadata of RFC 8414 and RFC 9728, clients by metadata
// document or RFC 7591, resources of RFC 8707, the issuer of RFC 9207 and
// revocation by RFC 7009. Access tokens are JWTs of RFC 9068 signed by ES256
// (RFC 7518), presented as in RFC 6750; keys are named by their thumbprint
// (RFC 7638); the checks follow RFC 8725. The package must not know the market
// beyond who may come to which board, nor who signs in how, nor what a page looks like.
package oauth
