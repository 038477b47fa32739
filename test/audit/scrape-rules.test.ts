import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findingText } from '../../src/books/audit/verify/finding.ts'
import { verifyLog } from '../../src/books/audit/verify/verify.ts'
import { newEventId } from '../../src/kernel/ids.ts'
import type { StoredEvent } from '../../src/platform/eventstore/port.ts'
import { allEvents, appendEach, auditWorld, everyKind, tamper } from './world.ts'

type Data = Record<string, unknown>

/** The events of a release with one kind of them changed, as the laws see them. */
const findingsWith = async (
  t: Parameters<typeof auditWorld>[0],
  type: string,
  change: (data: Data) => Data,
): Promise<string> => {
  const world = await auditWorld(t)
  await appendEach(world.log, await everyKind())
  const event = (await allEvents(world.log)).find((one: StoredEvent) => one.type === type)!
  const data = JSON.stringify(change(JSON.parse(event.data)))
  await tamper(world.pool, ['update log.events set data = $2 where position = $1', [event.position, data]])
  const { findings } = await verifyLog(
    { pool: world.pool, log: world.log, groups: [], logInPostgres: true },
    { runId: newEventId(), publicKey: '', exported: null },
  )
  return findings.map(findingText).join('\n')
}

for (const [name, type, change, rule] of [
  [
    'a capture of a scrape that found nothing',
    'ScrapeFinished',
    { outcome: 'empty' },
    /scrape-billed|is not charged/,
  ],
  ['a charge that is not the price', 'ScrapeFinished', { amountMicros: 2_999 }, /comes to \$0\.003/],
  ['a hold of another price', 'ScrapeStarted', { priceMicros: 5_000 }, /is held for a scrape that costs/],
  ['a hold for no scrape', 'FundsHeld', { holdId: 'scr_none.1' }, /no scrape was started for hold/],
] as const)
  test(`verify finds ${name}`, async (t) => {
    assert.match(await findingsWith(t, type, (data) => ({ ...data, ...change })), rule)
  })
