import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { Pool } from 'undici'
import { claimStaff, createPeople } from '../src/features/sign-in/people.ts'
import { createSessions, newSessionId } from '../src/features/sign-in/sessions.ts'
import { stepsOf } from '../src/platform/cli/progress-bar.ts'
import { type BenchService, cause, withBenchService } from './accounts.ts'
import { type Bench, figure } from './bench.ts'
import { withDatabase } from './database.ts'
import { runLoad } from './orders/load.ts'
import { serverSettings, startServer, stopServer } from './orders/server.ts'
import { percentile } from './percentile.ts'

const clients = 50
/** What a page may take with so many clients, milliseconds at the median; and what its bytes may come to, compressed. */
const limit = { ms: 50, bytes: 14 * 1024 } as const
const loadMs = 3_000
const aloneCount = 30
const fillMs = 5_000
const order = JSON.stringify({ product_id: 'residential-premium', quantity: 1 })

const customerPaths = [
  '/console',
  '/console/orders',
  '/console/plans',
  '/console/transactions',
  '/console/deposits',
  '/console/keys',
  '/console/webhooks',
  '/console/catalogue',
  '/console/subscriptions',
  '/console/notices',
  '/console/catalogue/isp-static',
  '/console/reseller/margins',
  '/console/reseller/statement',
  '/console/reseller/customers',
]
const staffPaths = [
  '/console/staff',
  '/console/finance/money',
  '/console/finance/balance',
  '/console/finance/periods',
  '/console/operator/accounts',
  '/console/operator/orders',
  '/console/operator/gateways',
  '/console/operator/stock',
  '/console/operator/queues',
]
const openPaths = ['/', '/prices', '/free-proxies', '/status']

/** The cookie of a new session. */
const cookieOf = async ({ core }: BenchService, subjectId: string): Promise<string> => {
  const session = { subjectId, sessionId: newSessionId(subjectId), method: 'passkey' } as const
  await createPeople(core).signIn(session, { ...cause, actor: { kind: 'session', ...session } })
  const { secret } = await createSessions(core).open(session, { userAgent: 'bench', address: '127.0.0.1' })
  return `__Host-farebox_session=${secret}`
}

const staffOf = async (service: BenchService): Promise<string> => {
  const member = await claimStaff(service.core.pool, 'bench@staff.example')
  for (const role of ['finance', 'operator'] as const)
    await createPeople(service.core).grant(member, role, cause)
  return cookieOf(service, member.staffId)
}

type Page = { readonly path: string; readonly cookie: string | null }

/** How long each GET took, and what the last one weighs compressed. */
const get = async (
  pool: Pool,
  host: string,
  { path, cookie }: Page,
  goesOn: (sent: number) => boolean,
  times: number[],
): Promise<number> => {
  let last = Buffer.alloc(0)
  for (let sent = 0; goesOn(sent); sent += 1) {
    const startedMs = performance.now()
    const { statusCode, body } = await pool.request({
      method: 'GET',
      path,
      headers: { host, ...(cookie !== null && { cookie }) },
    })
    last = Buffer.from(await body.arrayBuffer())
    if (statusCode !== 200) throw new Error(`${path} was answered ${statusCode}`)
    times.push(performance.now() - startedMs)
  }
  return gzipSync(last).byteLength
}

/** What pages of the console take alone and with many clients, and what they weigh. */
export const consolePages: Bench = {
  name: 'console',
  what: `pages of the console alone and with ${clients} clients; limits ${limit.ms} ms and ${limit.bytes / 1024} KiB`,
  run: async ({ url, print, bar }) => {
    const directory = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
    try {
      await withDatabase(url, async (database) => {
        const settings = serverSettings(database, directory)
        await stopServer((await startServer(settings)).child)
        const { key, customer, staff } = await withBenchService(settings, async (service) => {
          const { accountId, key } = await service.account('console@example.com', true)
          return { key, customer: await cookieOf(service, accountId), staff: await staffOf(service) }
        })
        const { child, url: base } = await startServer(settings)
        const pool = new Pool(base.origin, { connections: clients })
        try {
          const { statuses } = await runLoad({
            host: base.hostname,
            port: Number(base.port),
            connections: 16,
            warmUpMs: 0,
            measureMs: fillMs,
            path: '/api/v1/orders',
            keys: [key],
            bodies: [order],
            run: randomBytes(4).toString('hex'),
          })
          print(
            `  an account with ${figure(statuses['201'] ?? 0)} orders\n  page${' '.repeat(32)}alone ms   p50 ms   p99 ms  × ${limit.ms} ms  KiB (gzip)`,
          )
          const pages: readonly Page[] = [
            ...customerPaths.map((path) => ({ path, cookie: customer })),
            ...staffPaths.map((path) => ({ path, cookie: staff })),
            ...openPaths.map((path) => ({ path, cookie: null })),
          ]
          // The console answers at one name.
          const host = `localhost:${base.port}`
          const step = stepsOf(bar, 'pages', pages.length, 'pages')
          for (const [at, page] of pages.entries()) {
            step(at, at)
            const alone: number[] = []
            const bytes = await get(pool, host, page, (sent) => sent < aloneCount, alone)
            const loaded: number[] = []
            const endMs = performance.now() + loadMs
            await Promise.all(
              Array.from({ length: clients }, () =>
                get(pool, host, page, () => performance.now() < endMs, loaded),
              ),
            )
            const [a, p50, p99] = [
              percentile(
                alone.toSorted((x, y) => x - y),
                0.5,
              ),
              ...[0.5, 0.99].map((share) =>
                percentile(
                  loaded.toSorted((x, y) => x - y),
                  share,
                ),
              ),
            ]
            const column = (value: number, digits = 1, width = 9): string =>
              value.toFixed(digits).padStart(width)
            print(
              `  ${page.path.padEnd(36)}${column(a!)}${column(p50!)}${column(p99!)}${column(p50! / limit.ms, 2, 10)}${column(bytes / 1024, 1, 10)}${bytes > limit.bytes ? '  above the limit' : ''}`,
            )
          }
          bar.end()
        } finally {
          await pool.close()
          await stopServer(child)
        }
      })
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
  },
}
