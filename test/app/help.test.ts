import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { followers } from '../../projections/groups.ts'
import { runCli } from '../../src/app/cli-program.ts'
import { allRegistrations, registrationsFor } from '../../src/app/commands.ts'
import { queues } from '../../src/app/queues.ts'
import { checks } from '../../src/audit/checks/checks.ts'
import { invariantGroup } from '../../src/audit/invariants/invariants.ts'

const root = join(import.meta.dirname, '../..')

const run = async (args: readonly string[], registrations = registrationsFor(args)) => {
  const out: string[] = []
  const err: string[] = []
  const code = await runCli(args, await registrations, {
    out: (text) => out.push(text),
    err: (text) => err.push(text),
    open: () => Promise.reject(new Error('opened')),
  })
  return { code, out: out.join('\n'), err: err.join('\n') }
}

/** The names under the heading `Commands:` of a command's help. */
const commandsIn = (help: string): string[] =>
  [...(/^Commands:\n((?: {2}.*\n?)+)/m.exec(help)?.[1]?.matchAll(/^ {2}([a-z][a-z-]*)/gm) ?? [])]
    .map(([, name = '']) => name)
    .filter((name) => name !== 'help')

const helpsFrom = async (path: readonly string[]): Promise<{ path: readonly string[]; help: string }[]> => {
  const { code, out } = await run([...path, '--help'])
  assert.equal(code, 0, path.join(' '))
  const below = await Promise.all(commandsIn(out).map((name) => helpsFrom([...path, name])))
  return [{ path, help: out }, ...below.flat()]
}

/** Lines to paste under `Example:` or `Examples:`, up to an empty line. */
const examplesOf = (help: string): string =>
  (/^Examples?:\n((?: {2}.*\n?)+)/m.exec(help)?.[1] ?? '').replaceAll(/^ {2}/gm, '')

test('the command line loads only the requested commands, and behaves as if all were loaded', async () => {
  for (const { path, help } of await helpsFrom([])) {
    const args = [...path, '--help']
    assert.equal((await run(args, allRegistrations())).out, help, path.join(' '))
  }
  const args = ['help', 'orders']
  assert.deepEqual(await run(args), await run(args, allRegistrations()))
  assert.match((await run(['order', 'list'])).err, /Did you mean orders\?/)
})

test('the checks of a verification are listed without a database, each with what it proves', async () => {
  const { code, out } = await run(['ledger', 'verify', '--list'])
  assert.equal(code, 0)
  assert.match(out, /^revisions +The revisions of each stream count from 0\.$/m)
  const json = JSON.parse((await run(['ledger', 'verify', '--list', '--json'])).out)
  assert.deepEqual(
    json.checks.map(({ name }: { name: string }) => name),
    checks.map(({ name }) => name),
  )
})

test('the help of commands that take a queue or a read model lists all of them', async () => {
  const dead = (await run(['work', 'dead', '--help'])).out.replaceAll(/\s+/g, ' ')
  assert.ok(dead.includes(`one of ${queues.map(({ name }) => name).join(', ')}`), dead)
  const rebuild = (await run(['projections', 'rebuild', '--help'])).out.replaceAll(/\s+/g, ' ')
  const models = [...followers, invariantGroup].flatMap((group) => group.models.map(({ name }) => name))
  assert.ok(rebuild.includes(`read models, or all: ${models.join(', ')}`), rebuild)
})

test('every example in the help works when it is pasted', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-help-'))
  t.after(() => rm(directory, { recursive: true }))
  const examples = (await helpsFrom([]))
    .map(({ path, help }) => ({ path: path.join(' '), script: examplesOf(help) }))
    .filter(({ script }) => script !== '')
  // A shell function in place of bin/farebox records its arguments.
  const noted = join(directory, 'noted')
  const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
  const scripts = examples.map(
    ({ path, script }) =>
      `echo ${quoted(path)} >&2; printf '\\1' >> noted; (eval ${quoted(script.replaceAll('bin/farebox', 'farebox farebox'))})`,
  )
  // Other programs of a line may be missing here; that it can be read is what counts.
  const { stderr } = spawnSync(
    'bash',
    ['-c', [`farebox() { { printf '%s\\0' "$@"; echo; } >> '${noted}'; }`, ...scripts].join('\n')],
    { cwd: directory, encoding: 'utf8', env: { PATH: process.env.PATH }, input: '' },
  )
  assert.doesNotMatch(stderr, /syntax error|unexpected/)
  const callsOf = (await readFile(noted, 'utf8')).split('\x01').slice(1)
  let calls = 0
  for (const [at, { path, script }] of examples.entries()) {
    const where = `${path}:\n${script}`
    assert.doesNotMatch(script, /…/, where)
    const lines = (callsOf[at] ?? '').split('\n').filter((line) => line !== '')
    assert.equal(
      lines.length,
      script.match(/\bfarebox (?!-)/g)?.length ?? 0,
      `all begin with bin/farebox: ${where}`,
    )
    for (const line of lines) {
      const [program, ...args] = line.split('\0').slice(0, -1)
      assert.equal(program, 'farebox', where)
      const { err } = await run(args)
      assert.match(err, /^error: (opened$|.*cannot be read)/m, `${where}\n${err}`)
      calls++
    }
  }
  assert.ok(calls > 30, `${calls} examples`)
})

test('the help marks required options in the usage and in the list', async () => {
  const { out } = await run(['wallet', 'credit', '--help'])
  assert.match(
    out,
    /^Usage: farebox wallet credit --account <id> --cents <n> --kind <kind> --reference <text> \[options\]$/m,
  )
  assert.match(out, /^ {2}--account <id> +the account \(required\)$/m)
  const { out: list } = await run(['accounts', 'list', '--help'])
  assert.doesNotMatch(list, /required/)
})

test('an unknown option is reported, with the nearest one, before missing options', async () => {
  const { code, err } = await run(['accounts', 'create', '--emial', 'ada@example.com'])
  assert.equal(code, 2)
  assert.match(err, /^error: unknown option '--emial'\n\(Did you mean --email\?\)/)
})

test('all missing required options are reported together', async () => {
  const { code, err } = await run(['wallet', 'credit', '--kind', 'payment', '--account', 'acc_1'])
  assert.equal(code, 2)
  assert.match(err, /^error: required options '--cents <n>', '--reference <text>' not specified/)
})

test('--version prints the version of the package', async () => {
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
  assert.deepEqual(await run(['--version']), { code: 0, out: version, err: '' })
})
