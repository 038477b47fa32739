import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { open, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { ImportBrokeOff, importLog, LogNotEmpty } from '../../../src/features/exports/import-log.ts'
import { NoExport } from '../../../src/features/exports/jsonl.ts'
import { catalogStream } from '../../../src/kernel/streams.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { openLog } from '../../platform/eventstore/open-postgres.ts'
import fc, { runs } from '../../support/fast-check.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { testDatabase } from '../../support/postgres.ts'
import { exportTo, owners, scratch, writeBooks } from './books.ts'

const [books = []] = fc.sample(owners, { numRuns: 1, seed: 7 })

/** Behind every event of these files. */
const clock = () => Date.parse('2099-01-01T00:00:00.000Z')

const importFile = async (log: EventLog, path: string) => {
  const file = await open(path, 'r')
  try {
    return await importLog(log, file, clock)
  } finally {
    await file.close()
  }
}

/** A log with events of every kind, and texts that only an exact copy keeps. */
const exported = async (t: TestContext): Promise<{ source: EventLog; path: string; text: string }> => {
  const source = createMemoryLog()
  await writeBooks(source, books)
  await source.append(catalogStream, 'noStream', [
    {
      id: randomUUID(),
      type: 'CatalogImported',
      data: '{ "spaced" :  1.0, "ü":"\\u0000\\ud800 \u2028 😀 \\/", "twice":1, "twice":2 }',
      metadata: '{"recordedAt":"2026-11-21T00:00:00.000Z" }',
    },
  ])
  const path = join(await scratch(t), 'log.jsonl')
  await exportTo(source, path, 'jsonl')
  return { source, path, text: await readFile(path, 'utf8') }
}

const everything = async (log: EventLog) =>
  (await log.readAll(0, 1_000_000)).map(({ position: _, ...event }) => event)

test('an export recreates the same log in an empty one, byte for byte, on either adapter', async (t) => {
  const { source, path, text } = await exported(t)
  const target = await openLog((await testDatabase(t)).url)
  t.after(() => target.close())
  const result = await importFile(target, path)
  assert.deepEqual(result, { events: await source.head(), found: 0, position: await source.head() })
  assert.deepEqual(await everything(target), await everything(source))

  const again = join(await scratch(t), 'again.jsonl')
  await exportTo(target, again, 'jsonl')
  assert.equal(await readFile(again, 'utf8'), text)
  const memory = createMemoryLog()
  await importFile(memory, again)
  assert.deepEqual(await everything(memory), await everything(source))
})

test('a repeated import does nothing, and an interrupted import continues where it ended', async (t) => {
  const { source, path } = await exported(t)
  const count = await source.head()
  const target = createMemoryLog()
  await importFile(target, path)
  assert.deepEqual(await importFile(target, path), { events: count, found: count, position: count })

  for (const imported of [1, 7, count - 1]) {
    const half = createMemoryLog()
    for (const { stream, revision, position, ...event } of await source.readAll(0, imported))
      await half.append(stream, revision === 0 ? 'noStream' : revision - 1, [event])
    assert.deepEqual(await importFile(half, path), { events: count, found: imported, position: count })
    assert.deepEqual(await everything(half), await everything(source))
  }
})

test('a log with other or more events is left unchanged', async (t) => {
  const { path } = await exported(t)
  const other = createMemoryLog()
  await writeBooks(other, books)
  const before = await other.head()
  await assert.rejects(importFile(other, path), LogNotEmpty)
  assert.equal(await other.head(), before)

  const more = createMemoryLog()
  await importFile(more, path)
  const head = await more.head()
  const added = { id: randomUUID(), type: 'X', data: '{}', metadata: '{}' }
  await more.append(catalogStream, 0, [added])
  await assert.rejects(importFile(more, path), LogNotEmpty)
  assert.equal(await more.head(), head + 1)
})

const refused = async (directory: string, content: string | Uint8Array, why?: RegExp): Promise<void> => {
  const path = join(directory, 'changed.jsonl')
  await writeFile(path, content)
  const log = createMemoryLog()
  await assert.rejects(importFile(log, path), (error) => {
    assert.ok(error instanceof NoExport, String(error))
    if (why) assert.match(error.message, why)
    return true
  })
  assert.equal(await log.head(), 0, 'something was written')
}

test('a file that is not an export, is truncated or was changed is refused, and nothing is written', async (t) => {
  const { text } = await exported(t)
  const directory = await scratch(t)
  const lines = text.trimEnd().split('\n')
  const joined = (list: readonly string[]): string => `${list.join('\n')}\n`

  await refused(directory, '', /empty/)
  await refused(directory, 'hello\n', /line 1 is no JSON object/)
  await refused(directory, '{}\n', /line 1 is not/)
  await refused(directory, new Uint8Array(20 << 20), /longer than any line/)
  await refused(directory, new Uint8Array([0xff, 0xfe, 10]), /no JSON object/)
  await refused(directory, text.slice(0, -1), /cut off/)
  await refused(directory, joined(lines.slice(0, -1)), /last line is missing/)
  await refused(directory, joined([...lines, '{}']), /follows the end/)
  await refused(directory, joined(lines.toSpliced(5, 1)), /ordinal must be 5/)
  await refused(directory, joined(lines.toSpliced(5, 2, lines[6]!, lines[5]!)), /ordinal must be 5/)
  await refused(directory, joined(lines.with(5, lines[5]!.replace('"recordedAt', '"recordedat'))))
  await refused(
    directory,
    joined(lines.with(5, lines[5]!.replace(/amountMicros\\":\d/, 'amountMicros\\":9'))),
  )

  // A forged end does not help an impossible log.
  const { createHash } = await import('node:crypto')
  const ended = (list: readonly string[]): string => {
    const body = joined(list)
    const sha256 = createHash('sha256').update(body).digest('hex')
    return `${body}{"events":${list.length - 1},"sha256":"${sha256}"}\n`
  }
  const body = lines.slice(0, -1)
  const last = JSON.parse(body.at(-1)!)
  const withLast = (change: object) => ended(body.with(-1, JSON.stringify({ ...last, ...change })))
  await refused(directory, withLast({ revision: 9 }), /revision 9 of catalog, which goes on at 0/)
  await refused(directory, withLast({ id: 'X' }), /no lower-case uuid/)
  await refused(directory, withLast({ stream: 'users-1' }), /no stream of ours/)
  await refused(directory, withLast({ data: 'text' }), /data are no JSON/)
  await refused(directory, withLast({ data: `"${'x'.repeat(2 << 20)}"` }))
  await refused(directory, withLast({ metadata: '{}' }), /no recordedAt/)
  await refused(
    directory,
    withLast({ metadata: '{ "recordedAt" : "2099-01-01T00:00:05.001Z" }' }),
    /event \d+ is of the future/,
  )
})

test('with any changed byte or any early end of the file nothing is written', async (t) => {
  const { path } = await exported(t)
  const directory = await scratch(t)
  const bytes = await readFile(path)
  await fc.assert(
    fc.asyncProperty(
      fc.nat(bytes.length - 1),
      fc.integer({ min: 1, max: 255 }),
      fc.boolean(),
      async (at, by, cut) => {
        if (cut) return refused(directory, bytes.subarray(0, at))
        const changed = Buffer.from(bytes)
        changed[at] = changed[at]! ^ by
        return refused(directory, changed)
      },
    ),
    { numRuns: runs(150) },
  )
})

test('a file that changes between the passes is not written from there on', async (t) => {
  const { path, text } = await exported(t)
  const log = createMemoryLog()
  const file = await open(path, 'r+')
  let looked = false
  const changing: EventLog = {
    ...log,
    head: async () => {
      // The first read of the log follows the first pass.
      if (!looked) await writeFile(path, text.replace(/amountMicros\\":\d/, 'amountMicros\\":9'))
      looked = true
      return log.head()
    },
  }
  await assert.rejects(importLog(changing, file, clock), NoExport)
  assert.equal(await log.head(), 0)
  await file.close()
})

test('an import detects another writer and stops', async (t) => {
  const { path } = await exported(t)
  const log = createMemoryLog()
  const intruded: EventLog = {
    ...log,
    appendAll: async (items) => {
      const outcomes = await log.appendAll(items)
      await log.append('notice-x' as never, 'noStream', [
        { id: randomUUID(), type: 'X', data: '{}', metadata: '{}' },
      ])
      return outcomes
    },
  }
  await assert.rejects(importFile(intruded, path), ImportBrokeOff)
})

test('an append without a known outcome is sent again', async (t) => {
  const { source, path } = await exported(t)
  const log = createMemoryLog()
  let lost = 0
  const shaky: EventLog = {
    ...log,
    appendAll: async (items) => {
      const outcomes = await log.appendAll(items)
      lost += 1
      return lost % 2 === 1
        ? items.map(() => ({ status: 'unknown', cause: new Error('gone'), landed: [] }))
        : outcomes
    },
  }
  await importFile(shaky, path)
  assert.deepEqual(await everything(log), await everything(source))
})
