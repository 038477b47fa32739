import { createHash } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { answer } from './till.ts'

const ownNames = new Set(['127.0.0.1', 'localhost', '[::1]'])

const isOwn = (host: string | undefined): boolean =>
  host !== undefined && ownNames.has(URL.parse(`http://${host}`)?.hostname ?? '')

/** Nothing but the page's own styles, and forms that go back to where they came from. */
const policyOf = (page: string): string => {
  const styles = page
    .split('<style>')
    .slice(1)
    .map((part) => part.split('</style>', 1)[0] ?? '')
    .map((style) => `'sha256-${createHash('sha256').update(style).digest('base64')}'`)
  const styled = styles.length === 0 ? '' : `; style-src ${styles.join(' ')}`
  return `default-src 'none'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'${styled}`
}

/**
 * What keeps strange pages out of the stand-ins, which anybody on this machine may use. A page of another site can have its
 * name lead here (DNS rebinding), but it then sends that name as `Host`: 421. A page of ours runs no script.
 */
export const guardSandbox = (app: FastifyInstance): void => {
  app.addHook('onRequest', async (request, reply) => {
    if (isOwn(request.headers.host)) return undefined
    return answer(reply, 421, {
      error: `SANDBOX: the Host must be one of ${[...ownNames].join(', ')}, with any port`,
    })
  })
  app.addHook('onSend', async (_request, reply, payload) => {
    const isPage = String(reply.getHeader('content-type') ?? '').startsWith('text/html')
    reply.header('x-content-type-options', 'nosniff')
    reply.header(
      'content-security-policy',
      isPage ? policyOf(String(payload)) : "default-src 'none'; frame-ancestors 'none'",
    )
    return payload
  })
}
