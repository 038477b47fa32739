import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { farebox, startFarebox } from '../../support/farebox.ts'
import { until } from '../../support/until.ts'
import { usedDirectory } from '../../support/used-folder.ts'

const run = promisify(execFile)

type Listed = {
  readonly total: number
  readonly proxies: readonly { readonly ip: string; readonly port: number }[]
}

test('a start fills the list from its sandbox feeds; its lines work; a killed checker process is replaced', async (t) => {
  const env = { FAREBOX_DATA: await usedDirectory(t), FAREBOX_FREELIST_CHECKER: 'on' }
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

  const stats = async () => JSON.parse((await farebox(t, ['freelist', 'stats', '--json'], env)).out)
  // Silent ones are reported last.
  const { states } = await until(async () => {
    const found = await stats()
    return found.endpoints === 44 && found.states.untested === undefined ? found : null
  })
  assert.ok(states.never_answered > 15)
  const { sources } = JSON.parse((await farebox(t, ['freelist', 'sources', '--json'], env)).out)
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

test('a file is imported by its candidates, and forbidden addresses are refused', async (t) => {
  const env = { FAREBOX_DATA: await usedDirectory(t) }
  const file = `${env.FAREBOX_DATA}/list.txt`
  await writeFile(file, '127.80.9.9:8080\n10.0.0.1:80\n127.0.0.1:80\nno proxy\n127.80.9.9:25\n')
  const importing = async (...args: string[]) =>
    JSON.parse((await farebox(t, ['freelist', 'import', file, '--json', ...args], env)).out)
  assert.deepEqual(await importing('--dry-run'), { candidates: 1, refused: 3, unreadable: 1 })
  assert.deepEqual(await importing(), { candidates: 1, refused: 3, unreadable: 1, added: 1, leftOut: 0 })
  assert.deepEqual((await importing()).added, 0)
  const wrong = await farebox(t, ['freelist', 'import', file, '--format', 'json', '--json'], env)
  assert.deepEqual([wrong.code, JSON.parse(wrong.out).code], [2, 'invalid_file'])
})
