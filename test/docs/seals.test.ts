import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { demoKeys } from '../support/demo-env.ts'
import { dataDirectory } from '../support/farebox.ts'
import { blocksOf, pageOf, pageShell } from '../support/page-shell.ts'
import { testDatabase } from '../support/postgres.ts'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../..')
const checker = join(root, 'test/audit/seals/check_seals.py')

const missing = (['python3', 'openssl'] as const).filter((tool) => spawnSync(tool, ['--version']).error)
const skip =
  missing.length > 0 &&
  `${missing.join(' and ')} is not installed here: the independent check of seals did not run`

/** Runs the checker for several command lines and prints the exit code and both outputs of each. */
const checks = `
import contextlib, io, json, runpy, sys
checker, *lines = sys.argv[1:]
ran = []
for line in lines:
    sys.argv = [checker, *json.loads(line)]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_path(checker, run_name='__main__')
        except SystemExit as end:
            ran.append({'code': end.code, 'out': out.getvalue(), 'err': err.getvalue()})
print(json.dumps(ran))
`
type Checked = { readonly code: number; readonly out: string; readonly err: string }

test('the check of the seals page runs as printed and finds changes', { skip }, async (t) => {
  const [{ url }, directory] = await Promise.all([testDatabase(t), dataDirectory(t)])
  const env = {
    FAREBOX_DATA: directory,
    FAREBOX_SEAL_TARGET: `file:${join(directory, 'seals')}`,
    DATABASE_URL: url,
    ...demoKeys(),
  }
  const sh = await pageShell(t, { env, cwd: directory })
  const made = await sh('bin/farebox accounts create --email anna@example.com --json')
  const { accountId } = JSON.parse(made.stdout)
  await sh(
    `bin/farebox wallet credit --kind payment --account ${accountId} --cents 2500 --reference gift && bin/farebox ledger seal`,
  )
  const [script = '', witnessing = ''] = blocksOf(pageOf('docs/finance/seals.md'))
  const { stdout } = await sh(script.replaceAll('test/audit/seals/check_seals.py', `'${checker}'`))
  const { ok, events, seals, sealed } = JSON.parse(stdout.trim().split('\n').at(-1) ?? '')
  // After the sealed events: the key of the sealing process, and the seal.
  assert.deepEqual({ ok, seals, sealed }, { ok: true, seals: 1, sealed: events - 2 })

  await mkdir(join(directory, 'seals'))
  const witnessed = await sh(`bin/farebox projections rebuild all > rebuilt.txt\n${witnessing}`)
  assert.match(
    witnessed.stdout,
    /^delivered 1 seal to file:.*\n[\s\S]*new seals +1\n[\s\S]*new seals +0\n[\s\S]*nothing is wrong$/m,
  )

  const hex = JSON.parse((await sh('bin/farebox ledger seals public-key --json')).stdout).publicKey
  const pem = await readFile(join(directory, 'seal-public.pem'), 'utf8')
  await writeFile(join(directory, 'key.hex'), `${hex}\n`)
  const log = await readFile(join(directory, 'log.jsonl'), 'utf8')
  await writeFile(join(directory, 'tampered.jsonl'), log.replace('gift', 'loan'))
  await writeFile(join(directory, 'cut.jsonl'), log.slice(0, -100))
  await sh(`openssl genpkey -algorithm ed25519 | openssl pkey -pubout > other.pem
    openssl genpkey -algorithm x25519 | openssl pkey -pubout > x25519.pem`)

  const accepted = [hex, hex.toUpperCase(), 'key.hex', pem].map((key) => ['log.jsonl', key])
  const differing = [
    [['tampered.jsonl', 'seal-public.pem'], { ok: false, ordinal: events, why: 'the digest differs' }],
    [['log.jsonl', 'other.pem'], { ok: false, ordinal: events, why: 'a seal by another key' }],
  ] as const
  const refused = [
    [[], /^usage: check_seals\.py LOG\.jsonl PUBLIC_KEY\n/],
    [['log.jsonl'], /^usage: /],
    [['none.jsonl', hex], /^none\.jsonl cannot be read: /],
    [['cut.jsonl', hex], /^cut\.jsonl is not a whole export: /],
    [['log.jsonl', 'none.pem'], /^none\.pem cannot be read: /],
    [['log.jsonl', 'x25519.pem'], /^PUBLIC_KEY holds no Ed25519 public key: /],
    [['log.jsonl', 'log.jsonl'], /^PUBLIC_KEY holds no Ed25519 public key: /],
  ] as const
  const lines = [...accepted, ...differing.map(([args]) => args), ...refused.map(([args]) => args)]
  const ran = await run('python3', ['-c', checks, checker, ...lines.map((args) => JSON.stringify(args))], {
    cwd: directory,
  })
  const checked: Checked[] = JSON.parse(ran.stdout)
  assert.equal(checked.length, lines.length)
  for (const [, key] of accepted) assert.equal(checked.shift()?.code, 0, key)
  for (const [, says] of differing) {
    const { code, out } = checked.shift()!
    assert.equal(code, 1)
    assert.deepEqual(JSON.parse(out), says)
  }
  for (const [args, said] of refused) {
    const { code, out, err } = checked.shift()!
    assert.deepEqual([code, out], [2, ''], args.join(' '))
    assert.match(err, said)
  }
})
