import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import type { Table } from '../../projections/engine/read-model.ts'
import { groups } from '../../projections/groups.ts'
import { type Finding, findingText } from '../../src/audit/verify/finding.ts'
import { verifyLog } from '../../src/audit/verify/verify.ts'
import type { StoredEvent } from '../../src/eventstore/port.ts'
import { newEventId, newId } from '../../src/ids.ts'
import { caughtUp, startEngine } from '../projections/engine.ts'
import { type Audited, allEvents, auditWorld, sealedHistory, tamper, testKey } from './world.ts'

const restore = [
  ['delete from log.events'],
  ['insert into log.events select * from log.kept'],
  ['update log.head set last_position = (select max(position) from log.events)'],
] as const

const sealedLog = async (t: TestContext): Promise<Audited & { readonly events: readonly StoredEvent[] }> => {
  const world = await auditWorld(t)
  await sealedHistory(world)
  await world.pool.query('create table log.kept as select * from log.events')
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

/** Each column of a stored event, and how somebody would change it. */
const columns: Readonly<Record<string, string>> = {
  stream: `stream = stream || 'x'`,
  revision: 'revision = revision + 1000',
  id: 'id = gen_random_uuid()',
  type: `type = type || 'x'`,
  // The same JSON: only the bytes differ.
  data: `data = data || ' '`,
  metadata: `metadata = ' ' || metadata`,
}

describe('of a sealed log', () => {
  let kinds: readonly (readonly [kind: string, ordinal: number])[] = []
  const soak = process.env.FAREBOX_SOAK === '1'

  const firstOfEach = (events: readonly StoredEvent[], sealed: number) => {
    const found = new Map<string, number>()
    for (const [at, { type }] of events.slice(0, sealed).entries())
      if (!found.has(type)) found.set(type, at + 1)
    return [...found]
  }

  for (const [column, change] of Object.entries(columns))
    test(`every changed ${column} is found, in every kind of event, and located to its event`, async (t) => {
      const world = await sealedLog(t)
      const { pool, events } = world
      const clean = await verified(world)
      assert.deepEqual(clean.findings.map(findingText), [])
      kinds = firstOfEach(events, clean.seals.sealedThrough)
      assert.ok(kinds.length >= 39)
      // All kinds at once: each is one finding, at its own event and nowhere else.
      // Changed seals leave none to check the others by: they are tried alone.
      const ofSeals = kinds.filter(([kind]) => kind === 'LogSealed' || kind === 'SealKeyRotated')
      const ordinals = kinds.filter((kind) => !ofSeals.includes(kind)).map(([, ordinal]) => ordinal)
      await tamper(pool, [`update log.events set ${change} where position = any ($1::bigint[])`, [ordinals]])
      const together = await verified(world)
      const located = eventFindings(together.findings)
      assert.deepEqual(
        located.map((finding) => finding.where === 'event' && finding.event.ordinal).sort(),
        [...ordinals].sort(),
        located.map(findingText).join('\n'),
      )
      // And each alone; in the short run one column of all, and those of seals.
      for (const [kind, ordinal] of soak || column === 'data' ? kinds : ofSeals) {
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

  test('a changed position is found and located to its event', async (t) => {
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
    // Where no reader by position looks, but readers of its stream do.
    await tamper(pool, ...restore, ['update log.events set position = -position where position = 20'])
    const hidden = await verified(world)
    assert.ok(hidden.findings.some((finding) => pointsAt(finding, 20)))
    assert.ok(hidden.findings.some(({ check }) => check === 'append-only'))
  })

  test('every removed event is found and located, of every kind', async (t) => {
    const world = await sealedLog(t)
    const { pool, events } = world
    const { seals } = await verified(world)
    for (const [kind, ordinal] of firstOfEach(events, seals.sealedThrough)) {
      await tamper(pool, ...restore, ['delete from log.events where position = $1::bigint', [ordinal]])
      const { findings } = await verified(world)
      const said = eventFindings(findings).map(findingText)
      const removed = `seals: events ${ordinal} to ${ordinal}: it was removed`
      assert.ok(said.includes(removed), `${kind}: ${said.join('; ')}`)
      // A hand-over that is gone leaves the seals after it by a key that nobody vouched for.
      if (kind !== 'SealKeyRotated') assert.deepEqual(said, [removed])
      t.diagnostic(`${kind}: ${removed}`)
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

  test('every added event is found and located, wherever it is put', async (t) => {
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
             from log.kept where type = 'WalletCredited' order by position limit 1`,
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

  test('events that were exchanged are found and located', async (t) => {
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

  test('a log that was cut off is found by the digests that are kept', async (t) => {
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
      /the log ends with event 40, but digests of \d+ events are kept/,
    )
  })

  test('who changes an event and its digests is located to the range of one seal', async (t) => {
    const world = await sealedLog(t)
    const { pool, store, log } = world
    await tamper(pool, [`update log.events set data = data || ' ' where position = 60`])
    // As the owner of the database would: the digests of the changed log in the place of those that were kept.
    const { seals } = await verified(world)
    await store.clear()
    const { openChain } = await import('../../src/audit/chain.ts')
    const { takeToHead } = await import('../../src/audit/sealing.ts')
    const chain = await openChain(store, 0)
    await takeToHead(log, chain)
    await chain.keep()
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
const otherValue = (type: string, key: boolean): string => {
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
      throw new Error(`no way is known to change a column of type ${type}${key ? ' of a key' : ''}`)
  }
}

describe('of the read tables', () => {
  const tables: readonly Table[] = groups.flatMap(({ models }) =>
    models.flatMap((model) => model.tables as Table[]),
  )

  const foldedLog = async (t: TestContext) => {
    const world = await sealedLog(t)
    const engine = await startEngine(t, world.pool, world.log, groups)
    await caughtUp(engine, world.log)
    await engine.stop()
    // Tables that this history leaves empty have no cell to change.
    const filled: Table[] = []
    for (const table of tables) {
      const { rowCount } = await world.pool.query(`select 1 from read.${table.name} limit 1`)
      if (rowCount) filled.push(table)
      else t.diagnostic(`no row of ${table.name} comes of this history`)
      await world.pool.query(`create table log.kept_${table.name} as select * from read.${table.name}`)
    }
    const put = async (): Promise<void> => {
      for (const { name } of tables)
        await world.pool.query(
          `delete from read.${name}; insert into read.${name} select * from log.kept_${name}`,
        )
    }
    return { ...world, filled, put }
  }

  const cells = (findings: readonly Finding[]) => findings.filter((finding) => finding.where === 'cell')

  test('every changed cell, added row and removed row is found and named', async (t) => {
    const world = await foldedLog(t)
    const { pool, filled, put } = world
    assert.deepEqual((await verified(world, groups)).findings.map(findingText), [])
    const widest = Math.max(...filled.map(({ columns: of }) => Object.keys(of).length))
    for (let at = 0; at < widest; at += 1) {
      await put()
      const changed: (readonly [table: string, column: string, keyed: boolean])[] = []
      for (const table of filled) {
        const name = Object.keys(table.columns)[at]
        if (name === undefined) continue
        const keyed = table.key.includes(name)
        const value = otherValue(table.columns[name]!.type, keyed).replaceAll('%I', name)
        const plain = table.columns[name]!.nullable
          ? `coalesce(${value}, ${fresh(table.columns[name]!.type)})`
          : value
        await pool.query(
          `update read.${table.name} set ${name} = ${plain} where ctid = (select max(ctid) from read.${table.name})`,
        )
        changed.push([table.name, name, keyed])
      }
      const found = cells((await verified(world, groups)).findings)
      assert.deepEqual(found.map(({ table }) => table).sort(), changed.map(([table]) => table).sort())
      for (const [table, column, keyed] of changed) {
        const cell = found.find((finding) => finding.table === table)!
        // Another key is another row: one that is there and one that is not.
        assert.equal(cell.column, keyed ? null : column, findingText(cell))
        if (!keyed) assert.notDeepEqual(cell.live, cell.derived)
        t.diagnostic(findingText(cell).slice(0, 200))
      }
    }
    for (const what of ['removed', 'added'] as const) {
      await put()
      for (const table of what === 'removed' ? filled : tables)
        await pool.query(
          what === 'removed'
            ? `delete from read.${table.name} where ctid = (select max(ctid) from read.${table.name})`
            : `insert into read.${table.name} (${Object.keys(table.columns)}) values (${addedValues(table)})`,
        )
      const found = cells((await verified(world, groups)).findings)
      const expected = (what === 'removed' ? filled : tables).map(({ name }) => name)
      assert.deepEqual(found.map(({ table }) => table).sort(), expected.sort())
      for (const cell of found) {
        assert.equal(cell.column, null)
        assert.equal(what === 'removed' ? cell.live : cell.derived, null)
        t.diagnostic(`${what}: ${findingText(cell).slice(0, 200)}`)
      }
    }
  })

  const fresh = (type: string): string =>
    ({
      text: `'x'`,
      bigint: '1',
      integer: '1',
      boolean: 'true',
      timestamptz: 'now()',
      jsonb: `'{}'::jsonb`,
      'text[]': `array['x']`,
      inet: `'203.0.113.77'::inet`,
    })[type] ?? 'null'

  /** A row whose key no row has. */
  const addedValues = (table: Table): string =>
    Object.values(table.columns)
      .map(({ type }) =>
        type === 'bigint' || type === 'integer' ? '987654321' : type === 'text' ? `'zz-added'` : fresh(type),
      )
      .join(', ')
})
