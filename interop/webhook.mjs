// What the AI SDK makes of events that come by webhook, with the library of
// Standard Webhooks as a second opinion on each signature. It writes what it saw
// as one line of JSON.
//
//   node webhook.mjs ORIGIN TOKEN CERTIFICATE KEY ARGUMENTS
//
// ARGUMENTS are those of request_quotes, less the operation key, as JSON.
import { createServer } from 'node:https'
import { readFileSync } from 'node:fs'
import { createMCPClient, experimental_createMCPEventWebhook } from '@ai-sdk/mcp'
import { Webhook } from 'standardwebhooks'

const [, , origin, token, certificate, key, wish] = process.argv
const subscriptions = new Map()
const store = {
  get: async (id) => subscriptions.get(id),
  getById: async (id) => [...subscriptions.values()].find((s) => s.id === id),
  set: async (s) => void subscriptions.set(s.key, s),
  update: async (id, patch) => void subscriptions.set(id, { ...subscriptions.get(id), ...patch }),
  delete: async (id) => void subscriptions.delete(id),
}
const saw = { events: [], errors: [], verified: 0, types: [], early: 0 }
let enough = () => {}
const handle = experimental_createMCPEventWebhook({
  store,
  onEvent: async ({ event }) => { saw.events.push({ id: event.eventId, kind: event.data.kind, cursor: event.cursor }); enough() },
  onError: (error) => saw.errors.push(String(error)),
})
const server = createServer({ cert: readFileSync(certificate), key: readFileSync(key) }, async (req, res) => {
  const chunks = []
  for await (const chunk of req) chunks.push(chunk)
  const body = Buffer.concat(chunks)
  const url = `https://${req.headers.host}${req.url}`
  const known = subscriptions.get(new URL(url).searchParams.get('mcp_event_subscription'))
  saw.types.push(JSON.parse(body).type ?? 'event')
  try {
    new Webhook(known.delivery.secret).verify(body.toString(), req.headers)
    saw.verified++
  } catch (error) {
    saw.errors.push(String(error))
  }
  const answer = await handle(new Request(url, { method: req.method, headers: req.headers, body }))
  if (answer.status === 503) saw.early++
  res.writeHead(answer.status, Object.fromEntries(answer.headers))
  res.end(Buffer.from(await answer.arrayBuffer()))
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))

const events = (n) => new Promise((resolve, reject) => {
  const late = setTimeout(() => reject(new Error(`only ${JSON.stringify(saw)}`)), 60000)
  enough = () => { if (saw.events.length >= n) { clearTimeout(late); resolve() } }
  enough()
})
let asked = 0
const ask = async () => {
  const res = await fetch(`${origin}/api/request_quotes`, {
    method: 'POST', headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ ...JSON.parse(wish), operationKey: `hook-${asked++}` }),
  })
  if (!res.ok) throw new Error(await res.text())
}

const client = await createMCPClient({
  transport: { type: 'http', url: `${origin}/mcp`, headers: { Authorization: `Bearer ${token}` } }, experimental_events: { store },
})
saw.listed = (await client.experimental_events.list()).events.map((e) => e.name)
const subscribed = await client.experimental_events.subscribe({
  name: 'sidequest.requests', arguments: {}, delivery: { mode: 'webhook', url: `https://localhost:${server.address().port}/hook` }, cursor: null,
})
saw.id = subscribed.id
for (let n = 0; n < 3; n++) await ask()
await events(3)
saw.refreshed = (await client.experimental_events.refresh({ id: subscribed.id })).id
await ask()
await events(4)
await client.experimental_events.unsubscribe({ id: subscribed.id })
saw.left = subscriptions.size
await client.close()
server.closeAllConnections()
server.close()
console.log(JSON.stringify(saw))
