import assert from 'node:assert/strict'
import { dirname } from 'node:path'
import { describe, test } from 'node:test'
import { placeOf } from './house.ts'
import { files, imports, importsOf, textOf } from './sources.ts'

describe('the structure of the source', () => {
  test('has no cycle of imports, of types neither', () => {
    const next = new Map<string, string[]>()
    for (const { from, to } of imports) next.set(from, [...(next.get(from) ?? []), to])
    const done = new Set<string>()
    const walk = (file: string, path: readonly string[]): void => {
      assert.ok(!path.includes(file), `cycle: ${[...path.slice(path.indexOf(file)), file].join(' → ')}`)
      if (done.has(file)) return
      for (const to of next.get(file) ?? []) walk(to, [...path, file])
      done.add(file)
    }
    for (const file of files) walk(file, [])
  })

  // What is decided must come out the same on every replay: from state and inputs alone.
  const isFact = (file: string): boolean => placeOf(file).floor === 'facts'
  const impure =
    /(^node:|^pg$|^kysely$|^pino|^fastify|^undici|\/(postgres|http|commands)\/(?!command\.ts)|service\.ts$|routes\.ts$|queries\.ts$|cli\.ts$)/

  test('keeps events and decisions free of clocks, I/O, adapters and services', () => {
    const broken = imports.filter(({ from, to, typeOnly }) => isFact(from) && impure.test(to) && !typeOnly)
    assert.deepEqual(broken, [])
    for (const file of files.filter(isFact))
      assert.doesNotMatch(textOf(file), /Date\.now|new Date\(\)|Math\.random|randomUUID|process\./, file)
  })

  test('reads the system clock in its entry points alone', () => {
    const readers = files.filter((file) => /Date\.now/.test(textOf(file)))
    assert.deepEqual(readers.sort(), [
      'src/cli.ts',
      'src/freelist-worker.ts',
      'src/gateway-worker.ts',
      'src/main.ts',
    ])
  })

  test('keeps read models apart from everything that runs: they import types, tables and each other at most', () => {
    const broken = imports.filter(
      ({ from, to, typeOnly }) =>
        /^projections\/[a-z-]+\.ts$/.test(from) && /^(pg|kysely|node:)/.test(to) && !typeOnly,
    )
    assert.deepEqual(broken, [])
  })

  test('leaves the client of EventStoreDB inside its own folder', () => {
    const users = imports.filter(({ to }) => to.startsWith('@eventstore/')).map(({ from }) => dirname(from))
    assert.deepEqual([...new Set(users)], ['src/platform/eventstore/eventstoredb'])
  })

  test('reads at a start only the packages that every start needs, and for a command none of the server', () => {
    const startReads = (from: string): ReadonlySet<string> => {
      const read = new Set([from])
      for (const file of read)
        for (const { to, typeOnly } of imports.filter((each) => each.from === file))
          if (!typeOnly) read.add(to)
      return read
    }
    const entries = [
      'src/app/start.ts',
      'src/app/open-context.ts',
      'src/app/cli-program.ts',
      'src/app/commands.ts',
    ]
    const rare = ['@eventstore/db-client', 'stripe']
    const ofTheServer = ['fastify', 'undici', 'prom-client']
    for (const entry of entries) {
      const unwanted = entry === 'src/app/start.ts' ? rare : [...rare, ...ofTheServer]
      const read = startReads(entry)
      assert.ok(read.has('pg') || read.has('commander'), `${entry} was followed to packages`)
      assert.deepEqual(
        unwanted.filter((name) => read.has(name)),
        [],
        entry,
      )
    }
  })

  for (const reader of ['second-reader', 'dictionary-reader'])
    test(`keeps the ${reader} of the ledger apart from everything that it checks`, () => {
      const users = importsOf(`test/features/exports/${reader}.ts`).map(({ to }) => to)
      assert.deepEqual(
        users.filter((to) => !to.startsWith('node:')),
        [],
      )
    })
})
