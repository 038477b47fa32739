import assert from 'node:assert/strict'
import { exec } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { type TestContext, test } from 'node:test'

const root = resolve(import.meta.dirname, '../..')

/** A file, its one line, and the message that lint gives for that line; without a message the line is allowed. */
type Case = readonly [file: string, line: string, message?: string]

/** What `npm run lint` prints about a small tree that holds these files and the files that they import. */
const lint = async (t: TestContext, cases: readonly Case[]): Promise<{ failed: boolean; output: string }> => {
  const tree = await mkdtemp(join(tmpdir(), 'farebox-lint-'))
  t.after(() => rm(tree, { recursive: true }))
  const write = async (file: string, text: string): Promise<void> => {
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, text, { flag: 'wx' }).catch(() => undefined)
  }
  for (const config of ['biome.json', '.dependency-cruiser.mjs'])
    await copyFile(join(root, config), join(tree, config))
  for (const folder of ['src', 'projections', 'tools']) await mkdir(join(tree, folder))
  for (const [file, line] of cases) await write(join(tree, file), `${line}\n`)
  for (const [file, line] of cases)
    for (const [, target = ''] of line.matchAll(/'(\.[^']+)'/g))
      await write(join(tree, dirname(file), target), 'export const a = 1\n')

  const { scripts } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
  const PATH = [join(root, 'node_modules/.bin'), process.env.PATH].join(delimiter)
  return new Promise((done) =>
    exec(scripts.lint, { cwd: tree, env: { ...process.env, PATH, NO_COLOR: '1' } }, (error, stdout, stderr) =>
      done({ failed: error !== null, output: `${stdout}${stderr}` }),
    ),
  )
}

/** Each finding in one line: Biome begins one with the file and the rule, dependency-cruiser with the rule and the file. */
const findingsIn = (output: string): readonly string[] =>
  output
    .replaceAll(/\s+/g, ' ')
    .split(/ (?=\S+:\d+:\d+ lint\/|error [^:]+: \S+ → )/)
    .slice(1)

const checks = async (t: TestContext, cases: readonly Case[]): Promise<void> => {
  const { failed, output } = await lint(t, cases)
  assert.ok(failed, output)
  const findings = findingsIn(output)
  const forbidden = cases.filter(([, , message]) => message !== undefined)
  for (const [file, line, message = ''] of forbidden)
    assert.ok(
      findings.some((finding) => finding.includes(file) && finding.includes(message)),
      `${file}: ${line}\nis not refused with: ${message}\n${output}`,
    )
  assert.equal(findings.length, forbidden.length, output)
}

test('Biome refuses imports from higher layers and import cycles, and explains the rule', async (t) => {
  const neither = 'src/gateway, src/audit and src/sandbox import neither each other nor src/app nor tools.'
  await checks(t, [
    ['src/kernel/ids.ts', "import '../domain/orders/fold.ts'", 'src/kernel imports no other folder.'],
    [
      'src/domain/orders/decide.ts',
      "export type { A } from '../../platform/http/server.ts'",
      'src/domain imports no folder other than src/kernel.',
    ],
    ['src/domain/orders/refunds.ts', "import 'node:fs'", 'src/domain has no clock and no I/O'],
    ['src/domain/orders/place.ts', "import '../../kernel/money.ts'"],
    [
      'src/platform/eventstore/postgres/log.ts',
      "import '../../../../projections/balances.ts'",
      'src/platform imports no folder other than src/kernel.',
    ],
    ['src/platform/eventstore/postgres/reads.ts', "import '../../postgres/pool.ts'"],
    ['src/platform/feature/feature.ts', "import '../projections/engine.ts'"],
    [
      'projections/orders.ts',
      "import '../src/features/orders/index.ts'",
      'projections imports no folders other than src/kernel, src/domain and src/platform.',
    ],
    [
      'src/features/orders/order-pages.ts',
      "import '../../app/config.ts'",
      'src/features imports no folders other than src/kernel, src/domain, src/platform and projections.',
    ],
    ['src/gateway/admit/admission.ts', "import '../../audit/verify.ts'", neither],
    ['src/audit/seals/seal.ts', "import '../../sandbox/invoice.ts'", neither],
    ['src/sandbox/mailbox.ts', "import '../../tools/fill.ts'", neither],
    ['src/app/start.ts', "import '../sandbox/controls.ts'"],
    ['src/kernel/streams.ts', "export type { A } from './event.ts'", 'import is part of a cycle'],
    ['src/kernel/event.ts', "export type { A } from './streams.ts'", 'import is part of a cycle'],
  ])
})

test('dependency-cruiser refuses imports against the folder order and past an index, and explains the rule', async (t) => {
  const index =
    'Features, src/gateway, src/audit and src/sandbox import from another feature only its index.ts and for-commands.ts.'
  await checks(t, [
    [
      'src/features/stock/stock-service.ts',
      "export type { A } from '../orders/index.ts'",
      'src/features/stock imports from src/features only what .dependency-cruiser.mjs lists before it: accounts, catalog.',
    ],
    ['src/features/orders/place-order.ts', "import '../accounts/index.ts'"],
    ['src/features/orders/order-pages.ts', "import '../accounts/account-service.ts'", index],
    ['src/gateway/dial/dial.ts', "import '../../features/exits/health.ts'", index],
    ['src/audit/verify.ts', "import '../features/finance/feature.ts'", index],
    ['src/sandbox/mailbox.ts', "import '../features/notices/notice.ts'", index],
    [
      'src/app/routes.ts',
      "import '../features/orders/order-pages.ts'",
      'src/app and the entry points import from a feature only index.ts, feature.ts, commands.ts, migrations.ts, settings.ts and process.ts.',
    ],
    ['src/app/features.ts', "import '../features/orders/feature.ts'"],
    [
      'src/platform/postgres/pool.ts',
      "import '../http/server.ts'",
      'src/platform/postgres imports from src/platform only what .dependency-cruiser.mjs lists before it: outgoing.',
    ],
    [
      'src/domain/shared/terms.ts',
      "import '../events.ts'",
      'src/domain/shared imports from src/domain only what .dependency-cruiser.mjs lists before it: nothing.',
    ],
    [
      'src/features/vouchers/index.ts',
      "import '../../kernel/ids.ts'",
      '.dependency-cruiser.mjs lists every folder of src/features, each after those that it imports.',
    ],
    ['src/app/start.ts', "import '../main.ts'", 'No file imports an entry point of a process (src/*.ts).'],
    ['projections/orders.ts', "import 'node:fs'", 'projections imports only kysely and types from packages'],
    [
      'src/app/open-log.ts',
      "import '@eventstore/db-client'",
      'Only src/platform/eventstore/eventstoredb imports the client of EventStoreDB.',
    ],
    ['src/platform/eventstore/eventstoredb/client.ts', "import '@eventstore/db-client'"],
  ])
})
