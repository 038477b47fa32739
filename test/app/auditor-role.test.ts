import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openAuditor } from '../../src/app/auditor.ts'
import { readConfig } from '../../src/app/config.ts'
import { listSeals } from '../../src/audit/seals/seal-queries.ts'
import { newEventId } from '../../src/kernel/ids.ts'
import { createLogger } from '../../src/platform/http/logging.ts'
import { createPool } from '../../src/platform/postgres/pool.ts'
import { openLog } from '../platform/eventstore/open-postgres.ts'
import { asOperator } from '../support/demo-env.ts'
import { dataDirectory } from '../support/farebox.ts'
import { operate } from '../support/operator.ts'
import { databaseUsers } from '../support/postgres.ts'
import { seededDatabase } from '../support/seeded.ts'
import { testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'
import { allRefusedBesideAuditor, refusalsBesideAuditor } from './serving-role.ts'

test("a session of the service's role cannot stop the auditor, which finds and does not seal a forged event", async (t) => {
  const users = await databaseUsers(t)
  const one = await seededDatabase(t, await dataDirectory(t))
  const alone = { ...one, DATABASE_URL: users.as(one.DATABASE_URL, users.service) }
  const env = { ...alone, DATABASE_AUDITOR_URL: users.as(one.DATABASE_URL, users.auditor) }
  const settings = { ...env, DATABASE_OWNER_URL: one.DATABASE_URL, FAREBOX_SEAL_SECONDS: '1' }
  const { farebox, baseUrl, demo, run, close } = await testApp(t, { own: true, settings, audits: true })
  const { log } = farebox.core
  await run('reseller', 'set', '--account', demo.reseller.accountId, '--markup', '1.30')

  // Commands write the auditor's tables with its role only.
  const refused = await operate(['projections', 'rebuild', 'laws'], alone)
  assert.match(refused.err, /permission denied .* needs DATABASE_AUDITOR_URL/)
  for (const command of [
    ['ledger', 'seal'],
    ['projections', 'rebuild', 'laws', 'balances'],
    ['ledger', 'verify'],
  ]) {
    const { code, err } = await operate(command, env)
    assert.equal(code, 0, `${command.join(' ')}: ${err}`)
  }

  const insider = createPool({ url: env.DATABASE_URL, applicationName: 'insider' })
  t.after(() => insider.end())
  assert.deepEqual(await refusalsBesideAuditor(insider), allRefusedBesideAuditor)
  await insider.query(`select pg_advisory_lock(hashtextextended('farebox ' || name, 0))
    from unnest(array['signatures', 'sealer', 'projection laws', 'rebuild laws']) name`)
  const { rows } = await insider.query(
    `select stream, revision, type, data, metadata from log.events
      where stream like 'terms-%' order by stream, revision desc limit 1`,
  )
  const [{ stream, revision, ...event }] = rows
  const forgery = await openLog(env.DATABASE_URL)
  t.after(() => forgery.close())
  const id = newEventId()
  const { position } = await forgery.append(stream, revision, [{ ...event, id }])
  const noteOf = async (): Promise<string> => {
    const answer = (await (await fetch(`${baseUrl}/readyz`, asOperator)).json()) as {
      notes?: { laws?: string }
    }
    return answer.notes?.laws ?? ''
  }
  await until(async () => (await noteOf()).includes(id), { timeoutMs: 30_000, what: 'an alarm' })
  await until(
    async () =>
      (await (await fetch(`${baseUrl}/metrics`, asOperator)).text()).includes('\nfarebox_seal_problem 1'),
    { timeoutMs: 30_000, what: 'a sealer that seals nothing' },
  )
  const { seals } = await listSeals(log, { limit: 1, offset: 0 })
  assert.ok(seals[0]!.throughOrdinal < position)
  await close()
})

test('an auditor refuses a wrong role', async (t) => {
  const users = await databaseUsers(t)
  const one = await seededDatabase(t, await dataDirectory(t))
  const start = (settings: Readonly<Record<string, string>>) =>
    openAuditor({
      config: readConfig({ ...one, ...settings }),
      systemClock: Date.now,
      logger: createLogger('fatal'),
      kill: () => undefined,
    })
  const service = { DATABASE_URL: users.as(one.DATABASE_URL, users.service) }
  const auditor = { DATABASE_AUDITOR_URL: users.as(one.DATABASE_URL, users.auditor) }
  const owner = { DATABASE_OWNER_URL: one.DATABASE_URL }
  await assert.rejects(start(auditor), /lacks the rights of the auditor: start once with DATABASE_OWNER_URL/)
  await assert.rejects(
    start({ ...service, ...owner, DATABASE_AUDITOR_URL: service.DATABASE_URL }),
    /DATABASE_AUDITOR_URL needs a role of its own/,
  )
  const { close } = await start({ ...service, ...auditor, ...owner })
  await close()
  await assert.rejects(start(service), /has a role of its own, farebox_auditor_\w+: set DATABASE_AUDITOR_URL/)
})
