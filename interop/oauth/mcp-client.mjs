// An MCP client connects with nothing but the URL, calls a tool, and asks for more
// when a tool needs it. CLIENT is the package: the two generations of the SDK.
import { check, consent, resource } from './operator.mjs'

const modern = process.env.CLIENT === 'client'
const { Client, StreamableHTTPClientTransport, UnauthorizedError } = modern
  ? await import('@modelcontextprotocol/client')
  : {
      ...(await import('@modelcontextprotocol/sdk/client/index.js')),
      ...(await import('@modelcontextprotocol/sdk/client/streamableHttp.js')),
      ...(await import('@modelcontextprotocol/sdk/client/auth.js')),
    }

let redirected
const kept = {}
const provider = {
  redirectUrl: 'http://localhost:49154/callback',
  clientMetadata: { client_name: `SDK ${process.env.CLIENT}`, redirect_uris: ['http://localhost:49154/callback'] },
  state: () => 'a state',
  clientInformation: () => kept.client,
  saveClientInformation: (value) => { kept.client = value },
  tokens: () => kept.tokens,
  saveTokens: (value) => { kept.tokens = value },
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: (value) => { kept.verifier = value },
  discoveryState: () => kept.discovery,
  saveDiscoveryState: (value) => { kept.discovery = value },
  redirectToAuthorization: async (url) => {
    // Only what a client asked for can reach it later without another consent.
    if (!modern) url.searchParams.set('scope', 'sidequest:read sidequest:hire')
    redirected = await consent(url, process.env.SCOPES)
  },
}

async function finish(transport) {
  check(redirected.searchParams.get('state') === 'a state', 'the state comes back')
  const done = redirected.searchParams
  await transport.finishAuth(modern ? done : done.get('code'))
}

async function connect() {
  const client = new Client({ name: 'interop', version: '1.0.0' })
  const transport = new StreamableHTTPClientTransport(new URL(resource), { authProvider: provider })
  try {
    await client.connect(transport)
    return { client, transport }
  } catch (e) {
    if (!(e instanceof UnauthorizedError)) throw e
  }
  await finish(transport)
  return connect()
}

const { client, transport } = await connect()
const me = await client.callTool({ name: 'whoami', arguments: {} })
check(!me.isError && me.structuredContent.ok, 'whoami answers')
check(kept.tokens.scope === 'sidequest:read', 'it may read and nothing else')

process.env.SCOPES = ''
const hire = () => client.callTool({ name: 'list_quotes', arguments: { requestId: 'rq_none' } })
const write = () => client.callTool({ name: 'close_request', arguments: { requestId: 'rq_none', operationKey: 'k' } })
await hire()
if (modern) {
  redirected = undefined
  let answer
  try {
    answer = await write()
  } catch (e) {
    if (!redirected) throw e
    await finish(transport)
    answer = await write()
  }
  check(answer.isError && kept.tokens.scope.includes('sidequest:hire') && kept.tokens.scope.includes('sidequest:read'), 'it stepped up and kept what it had')
} else {
  // This generation answers a challenge with a refresh, which cannot bring more by
  // itself: its operator allows more on the page of the connections.
  await fetch(`${process.env.OPERATOR}widen`, { method: 'POST', body: kept.client.client_id })
  const answer = await write()
  check(answer.isError && kept.tokens.scope.includes('sidequest:hire'), 'it took up by a refresh what its operator allowed meanwhile')
}
await client.close()
