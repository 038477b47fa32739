import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { files, imports, importsOf, textOf } from './sources.ts'

/** biome.json and .dependency-cruiser.mjs say which folder may import which; these are the rules that no linter has. */
describe('the structure of the source', () => {
  test('reads no clock, random number or process in the domain: a replay of the log must give the same again', () => {
    for (const file of files.filter((each) => each.startsWith('src/domain/')))
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
