// What every script here shares: the test that runs it serves the market at
// RESOURCE and plays the operator at OPERATOR.
export const resource = process.env.RESOURCE
export const issuer = process.env.ISSUER

// consent sends the operator to an authorization URL and returns the redirect that
// the client gets. Scopes are what the operator ticks: all that was asked for, if
// left out.
export async function consent(url, scopes = '') {
  const answer = await fetch(`${process.env.OPERATOR}?scopes=${encodeURIComponent(scopes)}`, { method: 'POST', body: String(url) })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`the operator got nowhere: ${text}`)
  return new URL(text)
}

export function check(ok, what) {
  if (!ok) throw new Error(`not so: ${what}`)
  console.log('ok', what)
}

export async function refused(promise, code) {
  try {
    await promise
  } catch (e) {
    check((e.error ?? e.cause?.error ?? e.cause?.body?.error) === code, `refused with ${code}`)
    return
  }
  throw new Error(`not refused with ${code}`)
}
