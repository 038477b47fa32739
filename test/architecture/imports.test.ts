import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { files, imports, importsOf, textOf } from './sources.ts'

const importsByFile = Map.groupBy(imports, ({ from }) => from)

/** All that is loaded with a file: files, and packages by their names. */
const startReads = (from: string): ReadonlySet<string> => {
  const read = new Set([from])
  for (const file of read)
    for (const { to, typeOnly } of importsByFile.get(file) ?? []) if (!typeOnly) read.add(to)
  return read
}

const packagesIn = (read: ReadonlySet<string>): string[] =>
  [...read].filter((name) => !/^(node:|src\/|projections\/)/.test(name))

/** biome.json and .dependency-cruiser.mjs say which folder may import which; these are the rules that no linter has. */
describe('the structure of the source', () => {
  test('the domain reads no clock, random number or process, so a replay gives the same result', () => {
    for (const file of files.filter((each) => each.startsWith('src/domain/')))
      assert.doesNotMatch(textOf(file), /Date\.now|new Date\(\)|Math\.random|randomUUID|process\./, file)
  })

  test('only entry points read the system clock', () => {
    const readers = files.filter((file) => /Date\.now/.test(textOf(file)))
    assert.deepEqual(readers.sort(), [
      'src/audit-worker.ts',
      'src/cli.ts',
      'src/freelist-worker.ts',
      'src/gateway-worker.ts',
      'src/main.ts',
    ])
  })

  test("a start loads only the packages that every start needs, and a command loads none of the server's", () => {
    const work = files.filter((file) => /\/run-[a-z-]*commands?\.ts$/.test(file))
    assert.ok(work.length > 20, work.join(' '))
    const entries = ['src/app/start.ts', 'src/app/open-context.ts', 'src/app/open-core.ts', ...work]
    assert.ok(startReads('src/app/start.ts').has('pg'), 'files are followed to packages')
    const rare = ['@eventstore/db-client', 'stripe', 'kysely']
    const ofTheServer = ['fastify', 'undici', 'prom-client']
    for (const entry of entries) {
      const unwanted = entry === 'src/app/start.ts' ? rare : [...rare, ...ofTheServer]
      const read = startReads(entry)
      assert.deepEqual(
        unwanted.filter((name) => read.has(name)),
        [],
        entry,
      )
    }
  })

  test('a gateway process loads neither the server, nor the read models, nor the client of EventStoreDB', () => {
    const read = startReads('src/app/gateway-process.ts')
    const unwanted = ['@eventstore/db-client', 'kysely', 'fastify', 'undici']
    assert.deepEqual(
      unwanted.filter((name) => read.has(name)),
      [],
    )
  })

  test('the help of a command loads few files and only the packages commander and immutable', () => {
    // Each is loaded when the command line runs one of its commands.
    const commands = [...textOf('src/app/commands.ts').matchAll(/import\('\.([^']+)'\)/g)]
      .map(([, file = '']) => join('src/app', file.startsWith('.') ? `.${file}` : file))
      .filter((file) => /command/.test(file))
    assert.ok(commands.length > 20, commands.join(' '))
    for (const entry of commands) {
      const read = startReads(entry)
      assert.deepEqual(
        packagesIn(read).filter((name) => name !== 'commander' && name !== 'immutable'),
        [],
        entry,
      )
      assert.ok(read.size <= 25, `${entry} loads ${read.size} modules: ${[...read].join(' ')}`)
    }
  })

  test('a command that finds no database loads no domain rules and no read models', () => {
    for (const entry of ['src/app/open-context.ts', 'src/app/doctor/doctor.ts'])
      assert.deepEqual(
        [...startReads(entry)].filter((file) => /^(src\/domain|projections)\//.test(file)),
        [],
        entry,
      )
  })

  test('the list of commands and wrong use load only the package commander', () => {
    for (const entry of ['src/app/cli-program.ts', 'src/app/commands.ts'])
      assert.deepEqual(packagesIn(startReads(entry)), ['commander'], entry)
  })

  for (const reader of ['second-reader', 'dictionary-reader'])
    test(`the ${reader} of the ledger imports nothing that it checks`, () => {
      const users = importsOf(`test/features/exports/${reader}.ts`).map(({ to }) => to)
      assert.deepEqual(
        users.filter((to) => !to.startsWith('node:')),
        [],
      )
    })
})
