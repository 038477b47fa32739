import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { dataDirectory, startFarebox } from '../../support/farebox.ts'
import { operate } from '../../support/operator.ts'
import { seededDatabase } from '../../support/seeded.ts'
import { until } from '../../support/until.ts'

const run = promisify(execFile)

type Listed = {
  readonly total: number
  readonly proxies: readonly { readonly ip: string; readonly port: number }[]
}

test('a start fills the list from its sandbox feeds; its lines work; a killed checker process is replaced', async (t) => {
  const env = { ...(await seededDatabase(t, await dataDirectory(t))), FAREBOX_FREELIST_CHECKER: 'on' }
  const server = await startFarebox(t, env)
  const list = async (query = ''): Promise<Listed> =>
    (await fetch(`${server.baseUrl}/api/proxy-list?limit=1000${query}`)).json() as Promise<Listed>
  const filled = await until(
    async () => {
      const found = await list()
      return found.total > 20 ? found : null
    },
    { timeoutMs: 60_000 },
  )
  assert.ok(filled.proxies.every(({ ip }) => ip.startsWith('127.80.')))

  const stats = async () => JSON.parse((await operate(['freelist', 'stats', '--json'], env)).out)
  // Silent ones are reported last.
  const { states } = await until(async () => {
    const found = await stats()
    return found.endpoints === 44 && found.states.untested === undefined ? found : null
  })
  assert.ok(states.never_answered > 15)
  const { sources } = JSON.parse((await operate(['freelist', 'sources', '--json'], env)).out)
  assert.deepEqual(
    sources.map(({ id, candidates }: { id: string; candidates: number }) => [id, candidates]).sort(),
    [
      ['sandbox-json', 22],
      ['sandbox-text', 22],
    ],
  )

  const [proxy] = (await list('&protocol=socks5')).proxies
  const { stdout } = await run('curl', [
    '-sS',
    '-x',
    `socks5://${proxy!.ip}:${proxy!.port}`,
    `${server.baseUrl}/healthz`,
  ])
  assert.match(stdout, /"ok"/)

  const workers = async (): Promise<readonly number[]> => {
    const { stdout: found } = await run('pgrep', ['-P', String(server.pid), '-f', 'freelist-worker']).catch(
      () => ({
        stdout: '',
      }),
    )
    return found
      .split('\n')
      .filter((line) => line !== '')
      .map(Number)
  }
  const [first] = await workers()
  process.kill(first!, 'SIGKILL')
  await until(async () => (await workers()).some((pid) => pid !== first))
  await server.stop()
  await until(async () => (await workers()).length === 0)
})
