import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { type TestContext, test } from 'node:test'
import { readDemoFile } from '../../src/app/demo/demo-file.ts'
import { listSeals } from '../../src/audit/seals/seal-queries.ts'
import { isSelfSigned } from '../../src/kernel/streams.ts'
import { openLog } from '../platform/eventstore/open-postgres.ts'
import { call, dataDirectory, startFarebox } from '../support/farebox.ts'
import { operate } from '../support/operator.ts'
import { seededDatabase } from '../support/seeded.ts'
import { until } from '../support/until.ts'

const plan = { product_id: 'residential-premium', quantity: 1 }

/** The auditor that the process started; null: none. `nice` is its nice value. */
const auditorOf = async (pid: number): Promise<{ readonly pid: number; readonly nice: number } | null> => {
  const children = (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).trim().split(' ')
  for (const child of children) {
    const command = await readFile(`/proc/${child}/cmdline`, 'utf8').catch(() => '')
    if (!command.includes('audit-worker')) continue
    const fields = (await readFile(`/proc/${child}/stat`, 'utf8')).split(') ')[1]!.split(' ')
    return { pid: Number(child), nice: Number(fields[16]) }
  }
  return null
}

type Finding = { readonly check: string; readonly state: string; readonly found: string }

const auditorFinding = async (env: NodeJS.ProcessEnv): Promise<Finding> => {
  const { findings } = JSON.parse((await operate(['doctor', '--json'], env)).out) as {
    readonly findings: readonly Finding[]
  }
  return findings.find(({ check }) => check === 'auditor')!
}

const startAudited = async (t: TestContext, sealSeconds: number) => {
  const folder = await dataDirectory(t)
  const env = {
    ...(await seededDatabase(t, folder)),
    FAREBOX_SEAL_SECONDS: `${sealSeconds}`,
    FAREBOX_AUDITOR: 'on',
  }
  const server = await startFarebox(t, env)
  const log = await openLog(env.DATABASE_URL)
  t.after(() => log.close())
  const { buyer } = (await readDemoFile(folder))!
  const buy = async (): Promise<void> => {
    assert.equal((await call(`${server.baseUrl}/api/v1/orders`, buyer.key, { body: plan })).status, 201)
  }
  const sealed = async (): Promise<number> =>
    (await listSeals(log, { limit: 1, offset: 0 })).seals[0]?.throughOrdinal ?? 0
  return { env, server, log, buy, sealed }
}

test('a start runs the auditor in a process of low priority, and starts it again when it is killed', {
  skip: process.platform === 'linux' ? false : 'it reads /proc',
}, async (t) => {
  const { env, server, buy, sealed } = await startAudited(t, 1)
  const first = await until(() => auditorOf(server.pid), { what: 'an auditor' })
  assert.equal(first.nice, 10)
  await until(async () => (await sealed()) > 0, { what: 'a seal' })
  process.kill(first.pid, 'SIGKILL')
  const second = await until(
    async () => {
      const found = await auditorOf(server.pid)
      return found?.pid === first.pid ? null : found
    },
    { what: 'another auditor' },
  )
  assert.notEqual(second.pid, first.pid)
  const before = await sealed()
  await buy()
  await until(async () => (await sealed()) > before, { what: 'a seal of the new order' })
  await until(async () => (await auditorFinding(env)).state === 'ok', { what: 'a good report of the doctor' })
})

test('a server that SIGTERM stops leaves nothing unsealed', async (t) => {
  const { env, server, log, buy, sealed } = await startAudited(t, 3_600)
  await until(async () => (await auditorFinding(env)).state === 'ok', { what: 'an auditor' })
  await buy()
  const { code, err } = await server.stop()
  assert.deepEqual([code, err], [0, ''])
  const events = await log.readAll(0, 100_000)
  assert.deepEqual(
    events.slice(await sealed()).filter(({ stream }) => !isSelfSigned(stream)),
    [],
  )
  assert.ok(events.some(({ type }) => type === 'OrderCompleted'))
})
