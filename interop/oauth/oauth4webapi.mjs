// A login, its refreshes and its end, with oauth4webapi, which checks every answer
// against the RFCs.
import * as oauth from 'oauth4webapi'
import { check, consent, issuer, refused, resource } from './operator.mjs'

const http = { [oauth.allowInsecureRequests]: true }
const callback = 'http://127.0.0.1:49152/callback'

const protectedResource = await oauth.processResourceDiscoveryResponse(
  new URL(resource), await oauth.resourceDiscoveryRequest(new URL(resource), http))
check(protectedResource.authorization_servers[0] === issuer, 'the resource names its authorization server')
const server = await oauth.processDiscoveryResponse(
  new URL(issuer), await oauth.discoveryRequest(new URL(issuer), { ...http, algorithm: 'oauth2' }))
const client = await oauth.processDynamicClientRegistrationResponse(
  await oauth.dynamicClientRegistrationRequest(server, { redirect_uris: ['http://127.0.0.1/callback'], client_name: 'oauth4webapi', token_endpoint_auth_method: 'none' }, http))

async function login(scope) {
  const verifier = oauth.generateRandomCodeVerifier()
  const state = oauth.generateRandomState()
  const url = new URL(server.authorization_endpoint)
  url.search = new URLSearchParams({
    client_id: client.client_id, redirect_uri: callback, response_type: 'code', scope, state, resource,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier), code_challenge_method: 'S256',
  })
  const params = oauth.validateAuthResponse(server, client, await consent(url), state)
  const redeem = () => oauth.authorizationCodeGrantRequest(server, client, oauth.None(), params, callback, verifier, { ...http, additionalParameters: { resource } })
  return { redeem, tokens: await oauth.processAuthorizationCodeResponse(server, client, await redeem()) }
}

const refresh = async (token) => oauth.processRefreshTokenResponse(
  server, client, await oauth.refreshTokenGrantRequest(server, client, oauth.None(), token, http))
const whoami = (token) => fetch(resource.replace('/mcp', '/api/whoami'), {
  method: 'POST', body: '{}', headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' } })

const first = await login('sidequest:read sidequest:hire offline_access')
check(first.tokens.scope === 'sidequest:read sidequest:hire', 'the granted scope is told')
const request = new Request(resource, { headers: { authorization: `Bearer ${first.tokens.access_token}` } })
const claims = await oauth.validateJwtAccessToken(server, request, resource, http)
check(claims.client_id === client.client_id, 'the access token is one of RFC 9068')
check((await whoami(first.tokens.access_token)).status === 200, 'the access token is good')

const [a, b] = await Promise.all([refresh(first.tokens.refresh_token), refresh(first.tokens.refresh_token)])
check(a.refresh_token === b.refresh_token && a.refresh_token !== first.tokens.refresh_token, 'two refreshes at once have one successor')
const last = await refresh(a.refresh_token)
await refused(refresh(first.tokens.refresh_token), 'invalid_grant')
await refused(refresh(last.refresh_token), 'invalid_grant')
check((await whoami(last.access_token)).status === 401, 'a stolen refresh token ends the access')

const second = await login('sidequest:read')
await refused(oauth.processAuthorizationCodeResponse(server, client, await second.redeem()), 'invalid_grant')
check((await whoami(second.tokens.access_token)).status === 401, 'a stolen code ends the access')

const third = await login('sidequest:read')
await oauth.processRevocationResponse(await oauth.revocationRequest(server, client, oauth.None(), third.tokens.refresh_token, http))
check((await whoami(third.tokens.access_token)).status === 401, 'revocation ends the access')
await refused(refresh(third.tokens.refresh_token), 'invalid_grant')
