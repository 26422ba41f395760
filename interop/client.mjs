// What clients of others do with the server: connect, list, call, follow events,
// and be refused. It writes what it saw as one line of JSON.
//
//   node client.mjs URL TOKEN READER-TOKEN KIND
//
// KIND is modern or legacy, for the client of both eras, or sdk, for the one
// before it. The first token may hire, the second only reads.
import { Client, StreamableHTTPClientTransport, fromJsonSchema } from '@modelcontextprotocol/client'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ResultSchema } from '@modelcontextprotocol/sdk/types.js'

const [, , url, token, readerToken, kind] = process.argv
const identity = { name: 'interop', version: '1' }

async function connect(bearer) {
  const options = { requestInit: { headers: { Authorization: `Bearer ${bearer}` } } }
  const client = kind === 'sdk'
    ? new OldClient(identity)
    : new Client(identity, { versionNegotiation: { mode: kind === 'modern' ? 'auto' : 'legacy' } })
  const transport = kind === 'sdk' ? new OldTransport(new URL(url), options) : new StreamableHTTPClientTransport(new URL(url), options)
  await client.connect(transport)
  return client
}

const anything = kind === 'sdk' ? ResultSchema.passthrough() : fromJsonSchema({ type: 'object' })
const poll = (client, cursor) => client.request({ method: 'events/poll', params: { name: 'sidequest.requests', cursor } }, anything)

const call = (client, name, args) => client.callTool({ name, arguments: args })
const thrown = async (promise) => {
  try {
    await promise
    return null
  } catch (error) {
    return `${error.name} ${error.code ?? ''} ${error.message} ${JSON.stringify(error.requiredScope ?? error.data ?? '')}`
  }
}

const client = await connect(token)
const server = client.getServerVersion()
const tools = (await client.listTools()).tools.map((tool) => tool.name)
const start = await poll(client, null)
const who = await call(client, 'whoami', {})
const asked = await call(client, 'request_quotes', {
  operationKey: 'interop', title: 'A logo', brief: 'Draw a logo.', acceptanceCriteria: ['It is a logo.'],
  tokens: [(await call(client, 'protocol_info', {})).structuredContent.result.rewardTokens[0].address],
  quoteDeadline: '3d', deliveryDeadline: '7d',
})
const events = []
for (let cursor = start.cursor; events.length === 0;) {
  const page = await client.request({ method: 'events/poll', params: { name: 'sidequest.requests', cursor, timeoutMs: 20000 } }, anything)
  events.push(...page.events)
  cursor = page.cursor
}
const refused = await call(client, 'pick_quote', { operationKey: 'interop-2', requestId: asked.structuredContent.result.requestId, quoteId: 'qt_none' })
const unknown = await thrown(call(client, 'no_such_tool', {}))
await client.close()

const reader = await connect(readerToken)
const outside = await thrown(call(reader, 'request_quotes', {}))
await reader.close()

const intruder = await thrown(connect('no token at all'))

console.log(JSON.stringify({
  server, tools, name: who.structuredContent.name, asked: asked.structuredContent.status,
  heard: events[0].data.kind, sameRequest: events[0].data.requestId === asked.structuredContent.result.requestId,
  refused: { isError: refused.isError, code: refused.structuredContent.code, sameText: JSON.parse(refused.content[0].text).code === refused.structuredContent.code },
  unknown, outside, intruder,
}))
process.exit(0)
