import assert from 'node:assert/strict'
import { test } from 'node:test'
import { allMigrations } from '../../src/app/migrations.ts'
import { invariantGroup } from '../../src/audit/invariants/invariants.ts'
import { migrate } from '../../src/platform/postgres/migrate.ts'
import { databaseUsers } from '../support/postgres.ts'
import { commandLine } from './command-line.ts'
import { appendEach, everyKind } from './world.ts'

type Change = readonly [change: string, undo: string, ...findings: RegExp[]]

/** Changes by an owner of the database, their reversals, and the findings that they must cause, in rounds of some at once. */
const rounds: readonly (readonly Change[])[] = [
  [
    [
      'alter table read.orders add column more text',
      'alter table read.orders drop column more',
      /^projections: .*read\.orders.*column more/,
    ],
    [
      'alter table read.balances alter column account_id type varchar(40)',
      'alter table read.balances alter column account_id type text collate "C"',
      /^projections: .*read\.balances.*column account_id/,
    ],
    [
      'create rule hide as on insert to work.verifications do instead nothing',
      'drop rule hide on work.verifications',
      /^guards: table work\.verifications, rule hide/,
      /^verifications: .*is not recorded/,
    ],
    [
      'create table log.more () inherits (log.events)',
      'drop table log.more',
      /^guards: table log\.events, rows of/,
    ],
    [
      'alter table vault.api_keys rename to moved',
      'alter table vault.moved rename to api_keys',
      /^vault: the check of vault\.api_keys could not run: /,
    ],
    [
      'alter table work.checked_events alter column record type varchar',
      'alter table work.checked_events alter column record type text',
      /^guards: table work\.checked_events, column record: /,
    ],
    [
      'alter table read.plans drop constraint plans_pkey',
      'alter table read.plans add constraint plans_pkey primary key (plan_id)',
      /^projections: .*read\.plans was changed: its primary key/,
      /^guards: table read\.plans: expected none, found "key none"/,
    ],
    [
      'alter table work.used_ports rename to hidden',
      'alter table work.hidden rename to used_ports',
      /^guards: table work\.used_ports: expected .*, found none/,
    ],
  ],
  [
    [
      'alter table read.orders drop column status cascade',
      'select 1',
      /^projections: .*read\.orders.*column status/,
    ],
  ],
  [
    [
      'create rule hide as on update to work.verifications do instead nothing',
      'drop rule hide on work.verifications',
      /^guards: table work\.verifications, rule hide/,
      /^verifications: .*is not recorded/,
    ],
    [
      'create table read.more () inherits (read.balances)',
      'drop table read.more',
      /^guards: table read\.balances: expected none, found "rows of read\.more"/,
    ],
    [
      'alter table work.checked_events rename to moved',
      'alter table work.moved rename to checked_events',
      /^guards: table work\.checked_events: expected .*, found none/,
    ],
    [
      'alter table engine.checkpoints add column more text, drop column definitions cascade',
      `alter table engine.checkpoints drop column more, add column definitions jsonb not null default '{}'`,
      /^projections: group hot: the check could not run: /,
    ],
  ],
  [
    [
      'alter table work.verifications rename column result to results',
      'alter table work.verifications rename column results to result',
      /^verifications: the check could not run: /,
    ],
    [
      `alter table read.balances rename to moved; create view read.balances as select * from read.moved`,
      'drop view read.balances; alter table read.moved rename to balances',
      /^guards: view read\.balances/,
    ],
  ],
  [
    [
      `alter table log.events rename to moved; create view log.events as select * from log.moved`,
      'drop view log.events; alter table log.moved rename to events',
      /^guards: table log\.events: expected .*, found none/,
      /^guards: view log\.events/,
    ],
  ],
]

test('a changed table is a finding, and every other check continues', async (t) => {
  const { run, log, pool, fold } = await commandLine(t)
  await appendEach(log, await everyKind())
  await run('ledger', 'seal')
  await fold()
  const clean = (await run('ledger', 'verify', '--json')).json()
  assert.equal(clean.outcome, 'clean', JSON.stringify(clean.result?.findings))
  for (const changes of rounds) {
    for (const [change] of changes) await pool.query(change)
    const verified = await run('ledger', 'verify', '--json')
    assert.equal(verified.code, 1, verified.out)
    const { code, result, error: message } = verified.json()
    assert.equal(code, 'log_differs', verified.out)
    assert.equal(result.events, clean.result.events, 'the whole log was read')
    for (const [change, , ...findings] of changes)
      for (const finding of findings)
        assert.ok(
          message.split('\n').some((line: string) => finding.test(line.replace(/^DIFFERENT /, ''))),
          `${change}: ${finding} is not in\n${message}`,
        )
    for (const [, undo] of changes.toReversed()) await pool.query(undo)
  }
})

test('a table that the service may not read is a finding, and every other check continues', async (t) => {
  const { service, as } = await databaseUsers(t)
  const { runWith, run, log, pool, fold, url } = await commandLine(t)
  await appendEach(log, await everyKind())
  await run('ledger', 'seal')
  await fold()
  await migrate(pool, allMigrations, { service })
  // An auditor that starts for the first time has not made its tables yet.
  await pool.query(
    `insert into engine.checkpoints (name, log_id, position, epoch, definitions)
     select $1, log_id, 0, 1, '{}' from log.head`,
    [invariantGroup.name],
  )
  const verify = async () =>
    (await runWith({ DATABASE_URL: as(url, service) }, 'ledger', 'verify', '--json')).json()
  const clean = await verify()
  assert.equal(clean.outcome, 'clean', JSON.stringify(clean))
  await pool.query(
    `alter table read.balances owner to pg_monitor; alter table work.checked_events owner to pg_monitor; revoke all on vault.api_keys from ${service}`,
  )
  const { code, error: message, result } = await verify()
  assert.equal(code, 'log_differs', message)
  assert.equal(result.events, clean.result.events)
  assert.match(message, /guards: table read\.balances: expected none, found "owner pg_monitor"/)
  assert.match(message, /guards: table work\.checked_events, owner: .*pg_monitor/)
  assert.match(message, /projections: group hot: its table read\.balances is missing, or/)
  assert.match(
    message,
    /vault: the check of vault\.api_keys could not run: permission denied for table api_keys/,
  )
  assert.deepEqual(
    result.groups.map(({ group }: { group: string }) => group),
    clean.result.groups.map(({ group }: { group: string }) => group),
  )
})
