// A login, a refresh and its end, with openid-client and a client that has a secret.
import * as client from 'openid-client'
import { check, consent, issuer, refused, resource } from './operator.mjs'

const callback = 'http://localhost:49153/callback'
const config = await client.dynamicClientRegistration(
  new URL(issuer), { redirect_uris: [callback], client_name: 'openid-client', token_endpoint_auth_method: 'client_secret_post' }, undefined,
  { algorithm: 'oauth2', execute: [client.allowInsecureRequests] })
check(Boolean(config.clientMetadata().client_secret), 'the client has a secret')

const pkceCodeVerifier = client.randomPKCECodeVerifier()
const expectedState = client.randomState()
const url = client.buildAuthorizationUrl(config, {
  redirect_uri: callback, scope: 'sidequest:read sidequest:work', state: expectedState, resource,
  code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier), code_challenge_method: 'S256',
})
const tokens = await client.authorizationCodeGrant(config, await consent(url, 'sidequest:read'), { pkceCodeVerifier, expectedState }, { resource })
check(tokens.scope === 'sidequest:read', 'the operator allowed less')
const next = await client.refreshTokenGrant(config, tokens.refresh_token, { resource })
check(next.refresh_token !== tokens.refresh_token, 'the refresh token is a new one')
await client.tokenRevocation(config, next.access_token)
await refused(client.refreshTokenGrant(config, next.refresh_token), 'invalid_grant')
