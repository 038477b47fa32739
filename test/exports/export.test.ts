import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { accountStream } from '../../src/eventstore/streams.ts'
import type { AccountId } from '../../src/ids.ts'
import { declaredKinds } from '../support/event-kinds.ts'
import { createMemoryLog } from '../support/memory-log.ts'
import { exportTo, owners, scratch, writeBooks } from './books.ts'
import { beancountBalances, hledgerBalances, needs } from './programs.ts'
import { readSecondly } from './second-reader.ts'

/** Books large enough that every kind of event, every book and rounding of every sort is in them. */
const [large = []] = fc.sample(owners, { numRuns: 1, seed: 20_261_121 })

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

test('the books that other programs read hold money of every kind, and chargebacks below zero on both sides', async () => {
  const log = createMemoryLog()
  await writeBooks(log, large)
  const ledger = (await log.readAll(0, 100_000)).filter(({ stream }) => stream.startsWith('ledger-'))
  const kinds = new Set(ledger.map(({ type }) => type))
  assert.deepEqual([...kinds].sort(), [...declaredKinds('src/ledger/{events,customer-events}.ts')].sort())
  for (const kind of ['WalletAdjusted', 'CustomerAdjusted'])
    assert.ok(
      ledger.some(({ type, data }) => {
        const { reason, receivableMicros } = JSON.parse(data)
        return type === kind && reason === 'chargeback' && receivableMicros > 0
      }),
      kind,
    )
  assert.ok(ledger.some(({ type, data }) => type === 'WalletCredited' && JSON.parse(data).source === 'deposit'))
})

test('hledger reads the export strictly, and has our balance of every account in every book', async (t) => {
  if (!(await needs(t, 'hledger', 'hledger'))) return
  const directory = await scratch(t)
  const log = createMemoryLog()
  await writeBooks(log, large)
  await exportTo(log, join(directory, 'log.jsonl'), 'jsonl')
  const { balances } = readSecondly(join(directory, 'log.jsonl'))
  assert.deepEqual([...books(balances.keys())].sort(), ['reseller:acc_3c', 'reseller:acc_4d', 'service'])

  const whole = join(directory, 'all.journal')
  await exportTo(log, whole, 'hledger')
  const seen = await hledgerBalances(whole)
  assert.deepEqual(sorted(seen), sorted(new Map([...balances].map(([key, v]) => [key.replace('|', ':'), v]))))

  for (const book of books(balances.keys())) {
    const path = join(directory, 'one.journal')
    await exportTo(log, path, 'hledger', { book })
    assert.deepEqual(sorted(await hledgerBalances(path)), sorted(ofBook(balances, book)), book)
  }
})

test('beancount accepts the export, and has our balance of every account in every book', async (t) => {
  if (!(await needs(t, 'bean-check', 'beancount'))) return
  const directory = await scratch(t)
  const log = createMemoryLog()
  await writeBooks(log, large)
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

test('a journal that lost or gained an entry is refused by hledger and by beancount themselves', async (t) => {
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
  for (const line of text.trim().split('\n').slice(1)) {
    const [, , , , book, account, debit = '', credit = ''] = line.split(',')
    const value = BigInt((debit || `-${credit}`).replace('.', ''))
    const key = `${book}|${account}`
    sums.set(key, (sums.get(key) ?? 0n) + value)
  }
  return sums
}

test('whatever happened, the second reader and the sums of the CSV agree, at the end and up to any position', async (t) => {
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
    { numRuns: 15 },
  )
})

test('up to an instant means accounting time: what a slow clock recorded late is not in it', async (t) => {
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
