import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { eventDictionary } from '../../../src/audit/event-dictionary-page.ts'
import type { LedgerEvent } from '../../../src/domain/ledger/events.ts'
import { postingsOf } from '../../../src/domain/ledger/postings.ts'
import type { AccountId } from '../../../src/kernel/ids.ts'
import { accountStream } from '../../../src/kernel/streams.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { appendEach, everyKind } from '../../audit/world.ts'
import { play } from '../../domain/ledger/support.ts'
import { declaredKinds } from '../../support/event-kinds.ts'
import fc, { runs } from '../../support/fast-check.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { balancesOf, foldLog, upTo } from '../finance/fold.ts'
import { datedBack, datedBackMoments, playInto } from '../finance/support.ts'
import { exportTo, type Owner, owners, scratch, writeBooks } from './books.ts'
import { legsOf, readByDictionary } from './dictionary-reader.ts'
import { beancountBalances, hledgerBalances, needs } from './programs.ts'
import { readSecondly } from './second-reader.ts'

const isShortChargeback = ({ type, data }: LedgerEvent): boolean =>
  (type === 'WalletAdjusted' || type === 'CustomerAdjusted') &&
  data.reason === 'chargeback' &&
  (data.debtChangeMicros ?? 0) > 0

/** Whether money of every kind moves in the books, and chargebacks leave a debt on both sides. */
const holdEveryKind = (given: readonly Owner[]): boolean => {
  const events = given.flatMap(({ steps }) => play(steps).flatMap((played) => played.events))
  const kinds = new Set(events.map(({ type }) => type))
  const short = new Set(events.filter(isShortChargeback).map(({ type }) => type))
  return kinds.size === declaredKinds('src/domain/ledger/events.ts').size && short.size === 2
}

/** Books large enough that every kind of event, every book and rounding of every sort is in them. */
const large = fc.sample(owners, { numRuns: 50, seed: 20_261_121 }).find(holdEveryKind) ?? []

const books = (keys: Iterable<string>): ReadonlySet<string> =>
  new Set([...keys].map((key) => key.slice(0, key.indexOf('|'))))

const ofBook = (balances: ReadonlyMap<string, bigint>, book: string): ReadonlyMap<string, bigint> =>
  new Map(
    [...balances]
      .filter(([key]) => key.startsWith(`${book}|`))
      .map(([key, value]) => [key.slice(book.length + 1), value]),
  )

const sorted = (balances: ReadonlyMap<string, bigint>) =>
  [...balances].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, value]) => `${name} ${value}`)

test('the exported books contain money of every kind, and chargebacks that leave a debt', () => {
  assert.ok(holdEveryKind(large))
})

/** Logs whose exports other programs read. */
const histories: Readonly<Record<string, (log: EventLog) => Promise<void>>> = {
  'random books': (log) => writeBooks(log, large),
  'every kind of event': async (log) => appendEach(log, await everyKind()),
}

const dictionary = JSON.parse(JSON.stringify(eventDictionary()))

test('the event dictionary has for every money event the legs that the service books', () => {
  const legs = new Map<string, bigint>()
  const add = (book: string, account: string, debitMicros: bigint): void => {
    const sum = (legs.get(`${book}|${account}`) ?? 0n) + debitMicros
    if (sum === 0n) legs.delete(`${book}|${account}`)
    else legs.set(`${book}|${account}`, sum)
  }
  for (const { accountId, reseller, steps } of large)
    for (const event of play(steps).flatMap(({ events }) => events)) {
      const { type, data: facts } = event
      for (const leg of legsOf(dictionary, { type, facts, owner: accountId, reseller }))
        add(leg.book, leg.account, leg.debitMicros)
      for (const { book, account, debitMicros, creditMicros } of postingsOf(event, { accountId, reseller }))
        add(book, account, BigInt(creditMicros - debitMicros))
      assert.deepEqual([...legs], [], type)
    }
})

for (const [what, write] of Object.entries(histories)) {
  test(`of ${what} a reader with only the event dictionary and an export derives every balance`, async (t) => {
    const path = join(await scratch(t), 'log.jsonl')
    const log = createMemoryLog()
    await write(log)
    await exportTo(log, path, 'jsonl')
    const { balances } = readSecondly(path)
    assert.ok(books(balances.keys()).size > 1)
    assert.deepEqual(sorted(readByDictionary(dictionary, path)), sorted(balances))
  })

  test(`of ${what} hledger reads the export in strict mode, and has our balance of every account in every book`, async (t) => {
    if (!(await needs(t, 'hledger', 'hledger'))) return
    const directory = await scratch(t)
    const log = createMemoryLog()
    await write(log)
    await exportTo(log, join(directory, 'log.jsonl'), 'jsonl')
    const { balances } = readSecondly(join(directory, 'log.jsonl'))
    assert.ok(books(balances.keys()).size > 1)

    const whole = join(directory, 'all.journal')
    await exportTo(log, whole, 'hledger')
    const seen = await hledgerBalances(whole)
    const expected = new Map([...balances].map(([key, v]) => [key.replace('|', ':'), v]))
    assert.deepEqual(sorted(seen), sorted(expected))

    for (const book of books(balances.keys())) {
      const path = join(directory, 'one.journal')
      await exportTo(log, path, 'hledger', { book })
      assert.deepEqual(sorted(await hledgerBalances(path)), sorted(ofBook(balances, book)), book)
    }
  })

  test(`of ${what} beancount accepts the export, and has our balance of every account in every book`, async (t) => {
    if (!(await needs(t, 'bean-check', 'beancount'))) return
    const directory = await scratch(t)
    const log = createMemoryLog()
    await write(log)
    await exportTo(log, join(directory, 'log.jsonl'), 'jsonl')
    const { balances } = readSecondly(join(directory, 'log.jsonl'))
    const whole = join(directory, 'all.beancount')
    await exportTo(log, whole, 'beancount')
    assert.deepEqual(sorted(await beancountBalances(whole)), sorted(balances))
    for (const book of books(balances.keys())) {
      const path = join(directory, 'one.beancount')
      await exportTo(log, path, 'beancount', { book })
      const own = new Map([...ofBook(balances, book)].map(([account, v]) => [`${book}|${account}`, v]))
      assert.deepEqual(sorted(await beancountBalances(path)), sorted(own), book)
    }
  })
}

test('hledger and beancount refuse a journal that lost or gained an entry', async (t) => {
  const directory = await scratch(t)
  const log = createMemoryLog()
  await writeBooks(log, large)
  const change = async (path: string): Promise<void> => {
    const text = await readFile(path, 'utf8')
    const parts = text.split('\n\n')
    const at = parts.findLastIndex((part) => part.includes('WalletDebited') && !part.includes('open '))
    assert.notEqual(at, -1)
    await writeFile(path, parts.filter((_, index) => index !== at).join('\n\n'))
  }
  if (await needs(t, 'hledger', 'hledger')) {
    const path = join(directory, 'all.journal')
    await exportTo(log, path, 'hledger')
    await change(path)
    await assert.rejects(hledgerBalances(path), /assertion/)
  }
  if (await needs(t, 'bean-check', 'beancount')) {
    const path = join(directory, 'all.beancount')
    await exportTo(log, path, 'beancount')
    await change(path)
    await assert.rejects(beancountBalances(path), /Balance failed/)
  }
})

/** Sums a CSV export with nothing but text functions: no field of ours but the reference can hold a comma. */
const csvBalances = (text: string): ReadonlyMap<string, bigint> => {
  const sums = new Map<string, bigint>()
  for (const line of text.trim().split('\r\n').slice(1)) {
    const [, , , , book, account, debit = '', credit = ''] = line.split(',')
    const value = BigInt((debit || `-${credit}`).replace('.', ''))
    const key = `${book}|${account}`
    sums.set(key, (sums.get(key) ?? 0n) + value)
  }
  return sums
}

test('the second reader and the sums of the CSV agree for any history, at the end and up to any position', async (t) => {
  const directory = await scratch(t)
  await fc.assert(
    fc.asyncProperty(owners, fc.double({ min: 0, max: 1, noNaN: true }), async (given, share) => {
      const log = createMemoryLog()
      await writeBooks(log, given)
      const position = Math.max(1, Math.floor(share * (await log.head())))
      for (const until of [null, { kind: 'position', position } as const]) {
        await exportTo(log, join(directory, 'log.jsonl'), 'jsonl', { until })
        await exportTo(log, join(directory, 'postings.csv'), 'csv', { until })
        const { balances, events } = readSecondly(join(directory, 'log.jsonl'))
        assert.equal(events, until?.position ?? (await log.head()))
        const csv = await readFile(join(directory, 'postings.csv'), 'utf8')
        assert.deepEqual(sorted(csvBalances(csv)), sorted(balances))
        for (const book of books(balances.keys()))
          assert.equal(
            [...ofBook(balances, book).values()].reduce((sum, v) => sum + v, 0n),
            0n,
            book,
          )
      }
    }),
    { numRuns: runs(15) },
  )
})

test('up to an instant means accounting time: a late record of a slow clock is not included', async (t) => {
  const directory = await scratch(t)
  const log = createMemoryLog()
  for (const [n, second] of [0, 20, 10, 30].entries())
    await log.append(accountStream(`acc_${n}` as AccountId), 'noStream', [
      {
        id: randomUUID(),
        type: 'AccountCreated',
        data: JSON.stringify({ accountId: `acc_${n}`, reseller: false }),
        metadata: JSON.stringify({ recordedAt: `2026-11-21T00:00:${String(second).padStart(2, '0')}.000Z` }),
      },
    ])
  const path = join(directory, 'log.jsonl')
  const eventsUntil = async (at: string): Promise<number> => {
    await exportTo(log, path, 'jsonl', { until: { kind: 'time', atMs: Date.parse(at) } })
    return readSecondly(path).events
  }
  assert.equal(await eventsUntil('2026-11-20T23:59:59.999Z'), 0)
  // The third was recorded at second 10, and booked at 20 behind the second.
  assert.equal(await eventsUntil('2026-11-21T00:00:15.000Z'), 1)
  assert.equal(await eventsUntil('2026-11-21T00:00:20.000Z'), 3)
  assert.equal(await eventsUntil('2026-11-21T00:00:30.000Z'), 4)
})

test('an export up to an instant has the lines of statements that are dated up to it', async (t) => {
  const path = join(await scratch(t), 'postings.csv')
  const log = createMemoryLog()
  await playInto(log, datedBack)
  const events = await foldLog(log)
  for (const until of datedBackMoments) {
    await exportTo(log, path, 'csv', { until })
    const exported = [...csvBalances(await readFile(path, 'utf8'))].filter(([, value]) => value !== 0n)
    const folded = [...balancesOf(upTo(events, until))].map(
      ([key, value]) => [key.replace(' ', '|'), value] as const,
    )
    assert.deepEqual(sorted(new Map(exported)), sorted(new Map(folded)))
  }
})

test('hledger asserts the balances on the latest day, and beancount opens accounts before all entries', async (t) => {
  const directory = await scratch(t)
  const log = createMemoryLog()
  await playInto(log, [
    ...datedBack.slice(0, 1),
    (shop) => shop.credit('acc_one' as AccountId, 1),
    ...datedBack.slice(1, 3),
  ])
  await exportTo(log, join(directory, 'hledger'), 'hledger')
  assert.match(await readFile(join(directory, 'hledger'), 'utf8'), /\n2026-12-06 \* balances\n/)
  await exportTo(log, join(directory, 'beancount'), 'beancount')
  const text = await readFile(join(directory, 'beancount'), 'utf8')
  assert.match(text, /\n2026-11-24 \* /)
  assert.match(text, /\n2026-12-07 balance /)
  assert.deepEqual([...new Set(text.match(/^\S+(?= open )/gm))], ['1970-01-01'])
})
