// mcp-remote connects a program that speaks MCP over its standard streams.
import { spawn } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { check, consent, resource } from './operator.mjs'

const at = dirname(createRequire(import.meta.url).resolve('mcp-remote/package.json'))
const proxy = spawn(process.execPath, [join(at, 'dist/proxy.js'), resource, process.env.PORT, '--allow-http'], {
  env: { ...process.env, PATH: '/nonexistent', MCP_REMOTE_CONFIG_DIR: mkdtempSync(join(tmpdir(), 'mcp-remote-')) },
})
let said = ''
createInterface({ input: proxy.stderr }).on('line', async (line) => {
  said += line + '\n'
  const url = line.match(/https?:\/\/\S+\/authorize\?\S+/)
  if (url) await fetch(await consent(url[0]))
})
const waiting = new Map()
createInterface({ input: proxy.stdout }).on('line', (line) => {
  const message = JSON.parse(line)
  waiting.get(message.id)?.(message)
})
const call = (id, method, params) => {
  proxy.stdin.write(JSON.stringify({ jsonrpc: '2.0', id, method, params }) + '\n')
  return new Promise((resolve, reject) => {
    waiting.set(id, resolve)
    setTimeout(() => reject(new Error(`no answer to ${method}:\n${said}`)), 60000).unref()
  })
}
await call(1, 'initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'interop', version: '1' } })
proxy.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
const me = await call(2, 'tools/call', { name: 'whoami', arguments: {} })
check(me.result?.structuredContent?.ok, 'whoami answers')
proxy.kill()
process.exit(0)
