import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { appCommands } from '../../src/app/app-commands.ts'
import { runCli } from '../../src/app/cli-program.ts'
import { type Config, readConfig } from '../../src/app/config.ts'
import type { CliContext } from '../../src/platform/cli/cli-context.ts'
import { command, commandGroup, type Register } from '../../src/platform/cli/command.ts'
import { argument, listOf, option, required, wholeNumber } from '../../src/platform/cli/input.ts'
import { CliRefusal, dollars, fields, table } from '../../src/platform/cli/output.ts'

const full = new Error('the disk is full: ENOSPC', { cause: new Error('ENOSPC') })

const rooms: readonly Register<Config>[] = [
  ...appCommands,
  commandGroup('wallet', 'credit and adjust wallets'),
  command({
    name: 'wallet credit',
    about: 'credit a wallet by hand',
    input: {
      account: argument('<account>', ''),
      cents: required('<n>', 'whole cents', wholeNumber(1)),
      scopes: option('<list>', 'scopes', listOf(['buy', 'scrape'])),
    },
    run: async () => async (_context, input) => {
      if (input.cents === 13) throw new CliRefusal('already_applied', 'it landed before', { n: 1 })
      if (input.cents === 14) throw new Error('broken', { cause: full })
      if (input.cents === 15)
        throw Object.assign(new Error('cannot execute INSERT in a read-only transaction'), { code: '25006' })
      return { json: input, text: `credited ${dollars(input.cents)}` }
    },
  }),
]

const run = async (args: readonly string[], environment: NodeJS.ProcessEnv = {}) => {
  const out: string[] = []
  const err: string[] = []
  let opened = 0
  let closed = 0
  const code = await runCli(args, rooms, {
    environment,
    out: (text) => out.push(text),
    err: (text) => err.push(text),
    open: async () => {
      opened += 1
      return {
        context: {} as CliContext,
        close: async () => {
          closed += 1
        },
      }
    },
  })
  assert.equal(opened, closed)
  return { code, out: out.join('\n'), err: err.join('\n'), opened }
}

test('a command prints text for people, and only JSON with --json', async () => {
  assert.deepEqual(await run(['wallet', 'credit', 'acc_1', '--cents', '100000']), {
    code: 0,
    out: 'credited $1,000.00',
    err: '',
    opened: 1,
  })
  const { out } = await run(['wallet', 'credit', 'acc_1', '--json', '--cents', '5', '--scopes', 'buy,scrape'])
  assert.deepEqual(JSON.parse(out), { account: 'acc_1', cents: 5, scopes: ['buy', 'scrape'], json: true })
})

test('a refusal exits with 1, prints the reason on standard error, and prints JSON with --json', async () => {
  const plain = await run(['wallet', 'credit', 'acc_1', '--cents', '13'])
  assert.deepEqual([plain.code, plain.out, plain.err], [1, '', 'error: it landed before'])
  const json = await run(['wallet', 'credit', 'acc_1', '--cents', '13', '--json'])
  assert.equal(json.code, 1)
  assert.deepEqual(JSON.parse(json.out), { error: 'it landed before', code: 'already_applied', n: 1 })
})

test('a failure prints each of its causes once', async () => {
  const { code, err } = await run(['wallet', 'credit', 'acc_1', '--cents', '14'])
  assert.deepEqual([code, err], [1, 'error: broken: the disk is full: ENOSPC'])
})

for (const args of [
  ['wallet', 'credit', 'acc_1'],
  ['wallet', 'credit', 'acc_1', '--cents', '1.5'],
  ['wallet', 'credit', 'acc_1', '--cents', '5', '--scopes', 'sell'],
  ['wallet', 'credit', '--cents', '5'],
  ['wallet', 'credit', 'acc_1', '--cents', '5', '--nonsense'],
  ['wallet', 'nonsense'],
  ['nonsense'],
])
  test(`wrong use "${args.join(' ')}" exits with 2 and opens no database`, async () => {
    const { code, out, err, opened } = await run(args)
    assert.deepEqual([code, out, opened], [2, '', 0])
    assert.match(err, /error: /)
  })

for (const [args, message] of [
  [['wallet', 'credit', '--cents', '5', '--json'], /^missing required argument 'account'$/],
  [['wallet', 'credit', 'acc_1', '--json'], /^required option '--cents <n>' not specified$/],
  [['wallet', 'credit', 'acc_1', '--cents', 'y', '--json'], /'y' is invalid. It must be a whole number/],
  [
    ['wallet', 'credit', 'acc_1', '--cents', '5', '--json', '--scope'],
    /^unknown option '--scope' \(Did you mean --scopes\?\)$/,
  ],
  [['wallet', 'nonsense', '--json'], /^unknown command 'nonsense'$/],
  [['nonsense', '--json'], /^unknown command 'nonsense'$/],
  [['settings', 'nonsense', '--json'], /^too many arguments for 'settings'/],
  [['help', 'nonsense', '--json'], /^there is no such command/],
  [['wallet', '--json'], /^--json belongs after a command/],
  [['--json'], /^--json belongs after a command/],
] as const)
  test(`wrong use "${args.join(' ')}" with --json prints only JSON on standard output and exits with 2`, async () => {
    const { code, out, err, opened } = await run(args)
    assert.deepEqual([code, opened], [2, 0])
    const { error, ...rest } = JSON.parse(out)
    assert.deepEqual(rest, { code: 'invalid_usage' })
    assert.match(error, message)
    assert.notEqual(err, '')
  })

test('--json after "--" is a value, not an option', async () => {
  assert.deepEqual((await run(['wallet', 'credit', '--', 'acc_1', '--json'])).out, '')
})

test('help goes to standard output and opens no database', async () => {
  const top = await run(['--help'])
  assert.equal(top.code, 0)
  assert.match(top.out, /wallet\s+credit and adjust wallets/)
  const leaf = await run(['wallet', 'credit', '--help'])
  assert.match(leaf.out, /--cents <n>\s+whole cents/)
  assert.match(leaf.out, /--json\s+print only JSON/)
})

test('the list of settings has their meaning, their accepted values, and their default as a user would write it', async () => {
  const { code, out, opened } = await run(['settings', '--json'])
  assert.deepEqual([code, opened], [0, 0])
  const all: { name: string; takes: string; default: string | null; help: string }[] = JSON.parse(out)
  assert.deepEqual(
    all.find(({ name }) => name === 'FAREBOX_RATE_KEY'),
    {
      name: 'FAREBOX_RATE_KEY',
      takes: 'burst/perSecond, two whole numbers from 1 to 1000000, e.g. 300/50',
      default: '300/50',
      help: 'Requests of one key: burst, and rate per second.',
      value: '300/50',
      source: 'default',
      problem: null,
    },
  )
  assert.equal(all.find(({ name }) => name === 'FAREBOX_DATA')?.default, '.farebox')
  assert.equal(all.find(({ name }) => name === 'FAREBOX_SANDBOX')?.default, 'auto')
  assert.equal(all.find(({ name }) => name === 'DATABASE_URL')?.default, null)
  for (const { name, takes, help } of all) assert.ok(takes !== '' && help !== '', name)
  // Written out, the defaults are taken, and change nothing.
  const written = all.flatMap(({ name, default: value }) => (value === null ? [] : [[name, value]]))
  assert.deepEqual(readConfig(Object.fromEntries(written)), readConfig({}))
})

test('descriptions of settings are aligned within the width of the terminal', async () => {
  const { out } = await run(['settings'])
  assert.ok(
    out.includes(
      `FAREBOX_RATE_KEY                     Requests of one key: burst, and rate per second.
                                     takes    burst/perSecond, two whole numbers from 1 to 1000000,
                                              e.g. 300/50
                                     default  300/50
                                     in force 300/50, the default
`,
    ),
    out,
  )
  assert.deepEqual(
    out.split('\n').filter((line) => line.length > 100),
    [],
  )
})

test('the settings command shows each value and its source, masks secrets, and reports wrong values', async (t) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'farebox-settings-'))
  t.after(() => rm(dataDir, { recursive: true }))
  await writeFile(join(dataDir, 'seal.key'), 'hunter2')
  const environment = {
    FAREBOX_DATA: dataDir,
    PORT: '70000',
    FAREBOX_METRICS_TOKEN: 'hunter2-hunter2-hunter2',
    EVENTSTORE_URL: 'esdb://user:hunter2@a:2113,b:2113?tls=false',
  }
  const listed = await run(['settings', '--json'], environment)
  assert.equal(listed.code, 0)
  const all = new Map<string, { value: string | null; source: string; problem: string | null }>(
    JSON.parse(listed.out).map((setting: { name: string }) => [setting.name, setting]),
  )
  for (const [name, value, source] of [
    ['FAREBOX_DATA', dataDir, 'environment'],
    ['PORT', '70000', 'environment'],
    ['FAREBOX_METRICS_TOKEN', '(not shown)', 'environment'],
    ['EVENTSTORE_URL', 'esdb://a:2113,b:2113', 'environment'],
    ['FAREBOX_SEAL_KEY', join(dataDir, 'seal.key'), 'file'],
    ['FAREBOX_MASTER_KEY', null, 'none'],
    ['HOST', '127.0.0.1', 'default'],
  ] as const)
    assert.deepEqual([all.get(name)?.value, all.get(name)?.source], [value, source], name)
  assert.equal(all.get('PORT')?.problem, 'a whole number from 0 to 65535')
  assert.equal(all.get('HOST')?.problem, null)

  const text = await run(['settings'], { ...environment, DATABASE_URL: 'postgres://me:hunter2@db:5432/shop' })
  assert.match(text.out, /in force postgres:\/\/db:5432\/shop, from the environment\n/)
  assert.match(text.out, /in force 70000, from the environment; WRONG: expected a whole\s+number/)
  for (const { out } of [listed, text]) assert.doesNotMatch(out, /hunter2/)
})

test('tables and fields are aligned', () => {
  const rows = [
    { id: 'a', cents: 5 },
    { id: 'long', cents: 12345 },
  ]
  const columns = { id: 'id', balance: (row: (typeof rows)[0]) => dollars(row.cents) } as const
  assert.equal(table(rows, columns), 'ID    BALANCE\na       $0.05\nlong  $123.45')
  assert.equal(table([], columns, 'no accounts'), 'no accounts')
  assert.equal(fields({ a: 1, long: null }), 'a     1\nlong  -')
  assert.equal(dollars(-100_005), '-$1,000.05')
})

test('help wraps its lines, also if command names are long', async () => {
  const long = command({
    name: 'ledger explain',
    about: 'the events behind a balance, an order or an entry: who caused each, and on which terms',
    input: { subject: argument('<account|order|position>', ''), asOf: option('<moment>', 'as of then') },
    run: () => assert.fail(),
  })
  const out: string[] = []
  const output = { out: (text: string) => out.push(text), err: () => undefined, open: () => assert.fail() }
  await runCli(['ledger', '--help'], [long], output)
  const lines = out.join('\n').split('\n')
  assert.ok(lines.some((line) => /explain \[options\] <account\|order\|position> +the events/.test(line)))
  for (const line of lines) assert.ok(line.length <= 80, line)
})

test('a command is refused with the advice to run it again if the database does not answer', async () => {
  const { code, out, err } = await run(['wallet', 'credit', 'acc_1', '--cents', '15', '--json'])
  const message =
    'the database cannot answer: cannot execute INSERT in a read-only transaction; run the command again, it does nothing twice'
  assert.deepEqual([code, err], [1, `error: ${message}`])
  assert.deepEqual(JSON.parse(out), { error: message, code: 'overloaded' })
})
