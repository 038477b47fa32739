import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { groups } from '../../projections/groups.ts'
import { type Finding, findingText } from '../../src/audit/checks/finding.ts'
import { sealKeyOf } from '../../src/audit/seals/seals-file.ts'
import { verifyLog } from '../../src/audit/verify.ts'
import { depositRefundIdOf } from '../../src/domain/deposits/decide-refund.ts'
import { manualStream } from '../../src/domain/ledger/decide-manual.ts'
import { holdIdOf } from '../../src/domain/scrapers/calls.ts'
import { newEventId, newId, scrapeIdOf } from '../../src/kernel/ids.ts'
import { deliveryStream, orderStream, scrapeStream } from '../../src/kernel/streams.ts'
import type { StoredEvent } from '../../src/platform/eventstore/port.ts'
import { createPool } from '../../src/platform/postgres/pool.ts'
import { columnName } from '../../src/platform/projections/definition.ts'
import type { Table } from '../../src/platform/projections/read-model.ts'
import { openLog } from '../platform/eventstore/open-postgres.ts'
import { caughtUp, startEngine } from '../platform/projections/engine.ts'
import { declaredKinds } from '../support/event-kinds.ts'
import { skipWithoutPostgresLog } from '../support/service-env.ts'
import { playBusiness } from './business.ts'
import { type Audited, allEvents, appendEach, auditWorld, sealedHistory, tamper, testKey } from './world.ts'

const restore = [
  ['delete from log.events'],
  ['insert into log.events select * from public.saved'],
  ['update log.head set last_position = (select max(position) from log.events)'],
] as const

const sealedLog = async (t: TestContext): Promise<Audited & { readonly events: readonly StoredEvent[] }> => {
  const world = await auditWorld(t)
  await sealedHistory(world)
  await world.pool.query('create table public.saved as select * from log.events')
  return { ...world, events: await allEvents(world.log) }
}

const verified = async ({ pool, log }: Audited, of: typeof groups = []) =>
  verifyLog(
    { pool, log, groups: of, logInPostgres: true },
    { runId: newId('vrf'), publicKey: testKey(1).publicKey, exported: null },
  )

/** Whether a finding points at the event of this ordinal, and at nothing else. */
const pointsAt = (finding: Finding, ordinal: number): boolean =>
  finding.where === 'event'
    ? finding.event.ordinal === ordinal
    : finding.where === 'events' && finding.fromOrdinal === ordinal && finding.throughOrdinal === ordinal

const eventFindings = (findings: readonly Finding[]): readonly Finding[] =>
  findings.filter(({ check }) => check === 'seals')

/** Each column of a stored event, with a change of it. */
const columns: Readonly<Record<string, string>> = {
  stream: `stream = stream || 'x'`,
  revision: 'revision = revision + 1000',
  id: 'id = gen_random_uuid()',
  type: `type = type || 'x'`,
  // The same JSON: only the bytes differ.
  data: `data = data || ' '`,
  metadata: `metadata = ' ' || metadata`,
}

describe('in a sealed log', () => {
  let kinds: readonly (readonly [kind: string, ordinal: number])[] = []
  const soak = process.env.FAREBOX_SOAK === '1'

  const firstOfEach = (events: readonly StoredEvent[], sealed: number) => {
    const found = new Map<string, number>()
    for (const [at, { type }] of events.slice(0, sealed).entries())
      if (!found.has(type)) found.set(type, at + 1)
    return [...found]
  }

  /** Kinds that can be removed at once, with at least one event between any two; in a soak, and for seals, each alone. */
  const apart = (all: readonly (readonly [string, number])[]) => {
    const alone = all.filter(([kind]) => soak || kind === 'LogSealed' || kind === 'SealKeyRotated')
    const together: (readonly [string, number])[][] = []
    for (const one of all.filter((kind) => !alone.includes(kind))) {
      const fits = together.find((some) => some.every(([, ordinal]) => Math.abs(ordinal - one[1]) > 1))
      if (fits) fits.push(one)
      else together.push([one])
    }
    return [...together, ...alone.map((one) => [one])]
  }

  for (const [column, change] of Object.entries(columns))
    test(`every changed ${column} of every kind of event is found and located`, async (t) => {
      const world = await sealedLog(t)
      const { pool, events } = world
      const clean = await verified(world)
      assert.deepEqual(clean.findings.map(findingText), [])
      kinds = firstOfEach(events, clean.seals.sealedThrough)
      assert.deepEqual(
        kinds.map(([kind]) => kind).sort(),
        [...declaredKinds()].sort(),
        'every kind is in the log',
      )
      // Half of all kinds at once: each is one finding, at its own event and nowhere else; a run names a hundred at most.
      // Changed seals leave none to check the others by: they are tried alone.
      const ofSeals = kinds.filter(([kind]) => kind === 'LogSealed' || kind === 'SealKeyRotated')
      const ordinals = kinds.filter((kind) => !ofSeals.includes(kind)).map(([, ordinal]) => ordinal)
      const half = Math.ceil(ordinals.length / 2)
      for (const some of [ordinals.slice(0, half), ordinals.slice(half)]) {
        await tamper(pool, ...restore, [
          `update log.events set ${change} where position = any ($1::bigint[])`,
          [some],
        ])
        const located = eventFindings((await verified(world)).findings)
        assert.deepEqual(
          located.map((finding) => finding.where === 'event' && finding.event.ordinal).sort(),
          [...some].sort(),
          located.map(findingText).join('\n'),
        )
      }
      // And each alone; in the short run those of seals, which all hang on.
      for (const [kind, ordinal] of soak ? kinds : ofSeals) {
        await tamper(pool, ...restore, [
          `update log.events set ${change} where position = $1::bigint`,
          [ordinal],
        ])
        const { findings } = await verified(world)
        assert.ok(
          findings[0] && pointsAt(findings[0], ordinal),
          `${kind}: ${findings.map(findingText).join('; ')}`,
        )
        t.diagnostic(`${kind}.${column}: ${findingText(findings[0])}`)
      }
    })

  test('a changed position is found and located', async (t) => {
    const world = await sealedLog(t)
    const { pool, events } = world
    for (const ordinal of [1, 17, 60]) {
      await tamper(
        pool,
        ...restore,
        [
          'update log.events set position = $2::bigint where position = $1::bigint',
          [ordinal, events.length + 1],
        ],
        ['update log.head set last_position = $1::bigint', [events.length + 1]],
      )
      const { findings } = await verified(world)
      const moved = findings.find(({ where, check }) => where === 'event' && check === 'seals')
      assert.match(
        moved ? findingText(moved) : '',
        new RegExp(`it was event ${ordinal} when the log was digested`),
      )
      assert.equal(moved?.where === 'event' && moved.event.eventId, events[ordinal - 1]?.id)
      assert.ok(findings.some(({ check }) => check === 'positions'))
      t.diagnostic(findings.map(findingText).join('; '))
    }
    // Readers by position skip it, readers of its stream do not.
    await tamper(pool, ...restore, ['update log.events set position = -position where position = 20'])
    const hidden = await verified(world)
    assert.ok(hidden.findings.some((finding) => pointsAt(finding, 20)))
    assert.ok(hidden.findings.some(({ check }) => check === 'append-only'))
  })

  test('every removed event of every kind is found and located', async (t) => {
    const world = await sealedLog(t)
    const { pool, events } = world
    const { seals } = await verified(world)
    for (const some of apart(firstOfEach(events, seals.sealedThrough))) {
      const ordinals = some.map(([, ordinal]) => ordinal)
      await tamper(pool, ...restore, [
        'delete from log.events where position = any ($1::bigint[])',
        [ordinals],
      ])
      const { findings } = await verified(world)
      const said = eventFindings(findings).map(findingText)
      const removed = ordinals.map((ordinal) => `seals: events ${ordinal} to ${ordinal}: it was removed`)
      for (const one of removed) assert.ok(said.includes(one), `${one}, not ${said.join('; ')}`)
      // Without the hand-over no trusted key covers the seals after it.
      if (!some.some(([kind]) => kind === 'SealKeyRotated')) assert.deepEqual(said.sort(), removed.sort())
      for (const one of removed) t.diagnostic(one)
    }
    // Closed up, so that no position is missing.
    await tamper(
      pool,
      ...restore,
      ['delete from log.events where position between 30 and 34'],
      ['update log.events set position = -(position - 5) where position > 34'],
      ['update log.events set position = -position where position < 0'],
      ['update log.head set last_position = last_position - 5'],
    )
    const closed = await verified(world)
    assert.match(
      eventFindings(closed.findings).map(findingText).join('; '),
      /^seals: events 30 to 34: they were removed$/,
    )
  })

  test('every added event is found and located, at any position', async (t) => {
    const world = await sealedLog(t)
    const { pool } = world
    for (const ordinal of [1, 2, 30, 61]) {
      await tamper(
        pool,
        ...restore,
        ['update log.events set position = -(position + 1) where position >= $1::bigint', [ordinal]],
        ['update log.events set position = -position where position < 0'],
        [
          `insert into log.events select $1::bigint, stream, 1000, $2::uuid, type, data, metadata
             from public.saved where type = 'WalletCredited' order by position limit 1`,
          [ordinal, newEventId()],
        ],
        ['update log.head set last_position = last_position + 1'],
      )
      const { findings } = await verified(world)
      const added = eventFindings(findings)
      assert.ok(
        added.length === 1 && added[0] && pointsAt(added[0], ordinal),
        added.map(findingText).join('; '),
      )
      assert.match(findingText(added[0]), /it was added/)
      t.diagnostic(findingText(added[0]))
    }
  })

  test('exchanged events are found and located', async (t) => {
    const world = await sealedLog(t)
    const { pool, events } = world
    for (const [one, other] of [
      [1, 2],
      [20, 21],
      [20, 45],
    ] as const) {
      await tamper(
        pool,
        ...restore,
        ['update log.events set position = -$2::bigint where position = $1::bigint', [one, other]],
        ['update log.events set position = $1::bigint where position = $2::bigint', [one, other]],
        ['update log.events set position = -position where position < 0'],
      )
      const { findings } = await verified(world)
      const found = eventFindings(findings)
      const ids = [events[one - 1]?.id, events[other - 1]?.id]
      assert.ok(
        found.length > 0 &&
          found.every((finding) => finding.where === 'event' && ids.includes(finding.event.eventId)),
        found.map(findingText).join('; '),
      )
      t.diagnostic(found.map(findingText).join('; '))
    }
  })

  test('a truncated log is found by the stored digests', async (t) => {
    const world = await sealedLog(t)
    const { pool } = world
    await tamper(
      pool,
      ['delete from log.events where position > 40'],
      ['update log.head set last_position = 40'],
    )
    const { findings } = await verified(world)
    assert.match(
      findings.map(findingText).join('; '),
      /the log ends with event 40, but digests of \d+ events are stored/,
    )
  })

  test('a change of an event and its digests is located to the range of one seal', async (t) => {
    const world = await sealedLog(t)
    const { pool, store, log } = world
    await tamper(pool, [`update log.events set data = data || ' ' where position = 60`])
    // As an owner of the database would: the digests of the changed log replace the stored ones.
    const { seals } = await verified(world)
    await store.clear()
    const { openChain } = await import('../../src/audit/seals/sealing.ts')
    const { chainToHead } = await import('../../src/audit/seals/sealing.ts')
    const chain = await openChain(store, 0)
    await chainToHead(log, chain)
    await chain.save()
    const { findings } = await verified(world)
    const [first] = findings
    assert.ok(
      first?.where === 'events' && first.fromOrdinal <= 60 && first.throughOrdinal >= 60,
      findings.map(findingText).join('; '),
    )
    assert.ok(first.fromOrdinal > 40, 'the seal before it still fits')
    assert.equal(seals.sealedThrough, first.throughOrdinal)
  })
})

/** A value of the column's type that is not the one given; null for a type that no table uses. */
const otherValue = (type: string): string => {
  switch (type) {
    case 'text':
      return `%I || 'x'`
    case 'bigint':
    case 'integer':
      return '%I + 1'
    case 'boolean':
      return 'not %I'
    case 'timestamptz':
      return `%I + interval '1 millisecond'`
    case 'jsonb':
      return `%I || '{"x": 1}'`
    case 'text[]':
      return `%I || array['x']`
    case 'inet':
      return `'203.0.113.77'::inet`
    default:
      throw new Error(`no way is known to change a column of type ${type}`)
  }
}

describe('in the read tables', () => {
  const tables: readonly Table[] = groups.flatMap(({ models }) =>
    models.flatMap((model) => model.tables as Table[]),
  )

  /**
   * The remains of a crash: an order of a subscription that is only placed, a manual credit that is only recorded, and
   * a refund that is only requested.
   */
  const appendOpenEnds = async ({ log }: Pick<Audited, 'log'>): Promise<void> => {
    const events = await allEvents(log)
    const debit = events.findLast(({ type }) => type === 'WalletDebited')!
    const last = events.findLast(({ stream }) => stream === debit.stream)!
    const recorded = events.find(({ type }) => type === 'ManualMovementRecorded')!
    const removed = JSON.parse(events.find(({ type }) => type === 'EndpointRemoved')!.data)
    const enqueued = JSON.parse(events.find(({ type }) => type === 'WebhookEnqueued')!.data)
    const movement = { ...JSON.parse(recorded.data), reference: 'open' }
    const { endpointId, accountId } = removed
    const { order: paid, amountMicros } = JSON.parse(debit.data)
    const availableAfterMicros = JSON.parse(last.data).availableAfterMicros - amountMicros
    const period = { interval: 'month', period: { unit: 'month', count: 1 }, periodStart: null }
    const order = { ...paid, orderId: 'ord_open', subscription: { subscriptionId: 'sub_open', ...period } }
    // Caused by an account with orders: the last event may be an operator's.
    const { actor } = JSON.parse(debit.metadata)
    // Work that was begun a moment before the end of the log may still be finished.
    const { recordedAt } = JSON.parse(events.at(-1)!.metadata)
    const metadata = JSON.stringify({ ...JSON.parse(last.metadata), actor, recordedAt })
    const refund = events.find(({ type }) => type === 'DepositRefundRequested')!
    const { depositId, ...refunded } = JSON.parse(refund.data)
    const refundId = depositRefundIdOf(depositId, 'open')
    const scrapeId = scrapeIdOf(accountId, 'open')
    const called = { platform: 'tiktok', operation: 'profile', keyId: 'key_golden' }
    const { pricesDigest } = JSON.parse(events.find(({ type }) => type === 'ScrapeStarted')!.data)
    const fresh = (
      stream: StoredEvent['stream'],
      revision: number,
      type: string,
      data: unknown,
    ): StoredEvent => ({
      id: newEventId(),
      stream,
      revision,
      type,
      data: JSON.stringify(data),
      metadata,
      position: 0,
    })
    await appendEach(log, [
      fresh(debit.stream, last.revision + 1, 'WalletDebited', { order, amountMicros, availableAfterMicros }),
      fresh(orderStream(order.orderId), 0, 'OrderPlaced', {
        order,
        balanceCents: Math.floor(availableAfterMicros / 10_000),
      }),
      // Its endpoint was removed before: it is still to be canceled.
      fresh(deliveryStream(endpointId, enqueued.event, 'ord_open'), 0, 'WebhookEnqueued', {
        ...enqueued,
        ...{ deliveryId: 'dlv_open', endpointId, accountId, resource: 'ord_open' },
      }),
      fresh(manualStream(movement), 0, recorded.type, movement),
      // The provider has not been called.
      {
        ...fresh(
          refund.stream,
          events.findLast(({ stream }) => stream === refund.stream)!.revision + 1,
          refund.type,
          { ...refunded, depositId, refundId, reference: 'open' },
        ),
        metadata: JSON.stringify({ ...JSON.parse(refund.metadata), recordedAt }),
      },
      // Its process has gone.
      fresh(scrapeStream(scrapeId), 0, 'ScrapeStarted', {
        ...called,
        ...{ scrapeId, accountId, attempt: 1, requestId: 'open', fingerprint: 'open', priceMicros: 3_000 },
        leaseUntil: '2026-11-21T00:00:00.000Z',
        pricesDigest,
      }),
      fresh(debit.stream, last.revision + 2, 'FundsHeld', {
        ...called,
        ...{ holdId: holdIdOf(scrapeId, 1), requestId: 'open', amountMicros: 3_000 },
        availableAfterMicros: availableAfterMicros - 3_000,
      }),
    ])
  }

  type Folded = Pick<Audited, 'pool' | 'log'> & { readonly publicKey: string }

  const goldenLog = async (t: TestContext): Promise<Folded> => {
    const world = await auditWorld(t)
    await sealedHistory(world)
    await appendOpenEnds(world)
    const engine = await startEngine(t, world.pool, world.log, groups)
    await caughtUp(engine, world.log)
    await engine.stop()
    return { ...world, publicKey: testKey(1).publicKey }
  }

  const businessLog = async (t: TestContext): Promise<Folded> => {
    const { farebox, core, env, verified } = await playBusiness(t)
    await verified()
    const { publicKey } = sealKeyOf(core.keys.seal)
    await farebox.close()
    const settings = { url: env.DATABASE_URL!, applicationName: 'farebox-test' }
    const pool = createPool(settings)
    const log = await openLog(settings.url)
    t.after(async () => {
      await log.close()
      await pool.end()
    })
    return { pool, log, publicKey }
  }

  const verify = ({ pool, log, publicKey }: Folded) =>
    verifyLog({ pool, log, groups, logInPostgres: true }, { runId: newId('vrf'), publicKey, exported: null })
  const cellsOf = async (world: Folded) =>
    (await verify(world)).findings.filter((finding) => finding.where === 'cell')

  const fresh = (type: string): string =>
    ({
      text: `'zz-added'`,
      bigint: '987654321',
      integer: '987654321',
      boolean: 'true',
      timestamptz: 'now()',
      jsonb: `'{}'::jsonb`,
      'text[]': `array['x']`,
      inet: `'203.0.113.77'::inet`,
    })[type] ?? 'null'

  /** Changes every table, verifies, and returns the findings; the changes are undone first. */
  const inEvery = async (
    { pool }: Folded,
    some: readonly Table[],
    statementOf: (table: Table) => string | null,
  ): Promise<readonly Table[]> => {
    const changed: Table[] = []
    for (const table of tables)
      await pool.query(
        `delete from read.${table.name}; insert into read.${table.name} select * from public.saved_${table.name}`,
      )
    for (const table of some) {
      const statement = statementOf(table)
      if (statement === null) continue
      await pool.query(statement)
      changed.push(table)
    }
    return changed
  }

  const names = (list: readonly { readonly name: string }[]): string[] => list.map(({ name }) => name).sort()

  /** Changes a cell of each column of each table but those done, removes and adds a row of each; the tables changed. */
  const mutateAll = async (
    t: TestContext,
    world: Folded,
    done: ReadonlySet<string>,
  ): Promise<readonly string[]> => {
    const { pool } = world
    assert.deepEqual((await verify(world)).findings.map(findingText), [])
    const filled: Table[] = []
    for (const table of tables) {
      const { rowCount } = await pool.query(`select 1 from read.${table.name} limit 1`)
      if (rowCount && !done.has(table.name)) filled.push(table)
      await pool.query(`create table public.saved_${table.name} as select * from read.${table.name}`)
    }
    const one = (table: Table): string => `ctid = (select max(ctid) from read.${table.name})`
    const widest = Math.max(...filled.map(({ columns: of }) => Object.keys(of).length))
    for (let at = 0; at < widest; at += 1) {
      const columnOf = (table: Table) => Object.keys(table.columns)[at]
      const changed = await inEvery(world, filled, (table) => {
        const column = columnOf(table)
        if (column === undefined) return null
        const { type, nullable } = table.columns[column]!
        const name = columnName(column)
        const value = otherValue(type).replaceAll('%I', name)
        return `update read.${table.name} set ${name} = ${nullable ? `coalesce(${value}, ${fresh(type)})` : value} where ${one(table)}`
      })
      const found = await cellsOf(world)
      assert.deepEqual(found.map(({ table }) => table).sort(), names(changed))
      for (const table of changed) {
        const cell = found.find((finding) => finding.table === table.name)!
        const column = columnOf(table)!
        const keyed = table.key.includes(column)
        // Another key is another row: one that is there and one that is not.
        assert.equal(cell.column, keyed ? null : columnName(column), findingText(cell))
        if (!keyed) assert.notDeepEqual(cell.live, cell.derived)
        t.diagnostic(findingText(cell).slice(0, 200))
      }
    }
    const removed = await inEvery(
      world,
      filled,
      (table) => `delete from read.${table.name} where ${one(table)}`,
    )
    const gone = await cellsOf(world)
    assert.deepEqual(gone.map(({ table }) => table).sort(), names(removed))
    assert.ok(gone.every(({ column, live }) => column === null && live === null))
    const added = await inEvery(world, tables, ({ name, columns: of }) => {
      const values = Object.values(of).map(({ type }) => fresh(type))
      return `insert into read.${name} (${Object.keys(of).map(columnName)}) values (${values})`
    })
    const strange = await cellsOf(world)
    assert.deepEqual(strange.map(({ table }) => table).sort(), names(added))
    assert.ok(strange.every(({ column, derived }) => column === null && derived === null))
    for (const cell of [...gone, ...strange]) t.diagnostic(findingText(cell).slice(0, 200))
    return names(filled)
  }

  test('every changed cell, added row and removed row of every table is found and named', {
    skip: skipWithoutPostgresLog,
  }, async (t) => {
    const seen = new Set<string>()
    await t.test('in a log with every kind of event', async (t) => {
      for (const name of await mutateAll(t, await goldenLog(t), seen)) seen.add(name)
    })
    await t.test('in a log of a day of all business', async (t) => {
      for (const name of await mutateAll(t, await businessLog(t), seen)) seen.add(name)
    })
    // A table that is new wants a deed in business.ts.
    assert.deepEqual([...seen].sort(), names(tables), 'every table had a row to change')
  })
})
