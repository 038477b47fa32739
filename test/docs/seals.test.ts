import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { dataDirectory, surroundings } from '../support/farebox.ts'
import { testDatabase } from '../support/postgres.ts'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../..')
const checker = join(root, 'test/audit/seals/check_seals.py')

const missing = (['python3', 'openssl'] as const).filter((tool) => spawnSync(tool, ['--version']).error)
const skip =
  missing.length > 0 &&
  `${missing.join(' and ')} is not installed here: the independent check of seals did not run`

test('the check of the seals page runs as printed and finds changes', { skip }, async (t) => {
  const [{ url }, directory] = await Promise.all([testDatabase(t), dataDirectory(t)])
  const env = {
    ...surroundings(),
    FAREBOX_DATA: directory,
    FAREBOX_SEAL_TARGET: `file:${join(directory, 'seals')}`,
    DATABASE_URL: url,
    FAREBOX_MASTER_KEY: randomBytes(32).toString('base64'),
    FAREBOX_SEAL_KEY: randomBytes(32).toString('base64'),
  }
  const farebox = `'${process.execPath}' '${join(root, 'src/cli.ts')}'`
  const sh = (script: string) => run('bash', ['-euo', 'pipefail', '-c', script], { cwd: directory, env })
  /** The checker's exit code and output. */
  const check = async (...args: readonly string[]) => {
    const { code, stdout, stderr } = await run('python3', [checker, ...args], { cwd: directory }).then(
      (done) => ({ ...done, code: 0 }),
      (error) => error,
    )
    return { code, stderr, says: stdout === '' ? null : JSON.parse(stdout) }
  }

  const made = await sh(`${farebox} accounts create --email anna@example.com --json`)
  const { accountId } = JSON.parse(made.stdout)
  await sh(
    `${farebox} wallet credit --account ${accountId} --cents 2500 --reference gift && ${farebox} ledger seal`,
  )
  const page = await readFile(join(root, 'docs/finance/seals.md'), 'utf8')
  const [script = '', witnessing = ''] = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(
    ([, block]) => block,
  )
  const { stdout } = await sh(
    script.replaceAll('npx farebox', farebox).replaceAll('test/audit/seals/check_seals.py', `'${checker}'`),
  )
  const { ok, events, seals, sealed } = JSON.parse(stdout.trim().split('\n').at(-1) ?? '')
  // After the sealed events: the key of the sealing process, and the seal.
  assert.deepEqual({ ok, seals, sealed }, { ok: true, seals: 1, sealed: events - 2 })

  await mkdir(join(directory, 'seals'))
  const witnessed = await sh(
    `${farebox} projections rebuild all > rebuilt.txt\n${witnessing.replaceAll('npx farebox', farebox)}`,
  )
  assert.match(
    witnessed.stdout,
    /^delivered 1 seal to file:.*\n[\s\S]*new seals +1\n[\s\S]*new seals +0\n[\s\S]*nothing is wrong$/m,
  )

  const hex = JSON.parse((await sh(`${farebox} ledger seals public-key --json`)).stdout).publicKey
  const pem = await readFile(join(directory, 'seal-public.pem'), 'utf8')
  await writeFile(join(directory, 'key.hex'), `${hex}\n`)
  for (const key of [hex, hex.toUpperCase(), 'key.hex', pem])
    assert.equal((await check('log.jsonl', key)).code, 0, key)

  const log = await readFile(join(directory, 'log.jsonl'), 'utf8')
  await writeFile(join(directory, 'tampered.jsonl'), log.replace('gift', 'loan'))
  const tampered = await check('tampered.jsonl', 'seal-public.pem')
  assert.equal(tampered.code, 1)
  assert.deepEqual(tampered.says, { ok: false, ordinal: events, why: 'the digest differs' })

  await sh('openssl genpkey -algorithm ed25519 | openssl pkey -pubout > other.pem')
  const other = await check('log.jsonl', 'other.pem')
  assert.equal(other.code, 1)
  assert.equal(other.says.why, 'a seal by another key')

  await writeFile(join(directory, 'cut.jsonl'), log.slice(0, -100))
  await sh('openssl genpkey -algorithm x25519 | openssl pkey -pubout > x25519.pem')
  for (const [args, said] of [
    [[], /^usage: check_seals\.py LOG\.jsonl PUBLIC_KEY\n/],
    [['log.jsonl'], /^usage: /],
    [['none.jsonl', hex], /^none\.jsonl cannot be read: /],
    [['cut.jsonl', hex], /^cut\.jsonl is not a whole export: /],
    [['log.jsonl', 'none.pem'], /^none\.pem cannot be read: /],
    [['log.jsonl', 'x25519.pem'], /^PUBLIC_KEY holds no Ed25519 public key: /],
    [['log.jsonl', 'log.jsonl'], /^PUBLIC_KEY holds no Ed25519 public key: /],
  ] as const) {
    const { code, says, stderr } = await check(...args)
    assert.equal(code, 2, args.join(' '))
    assert.equal(says, null)
    assert.match(stderr, said)
    assert.doesNotMatch(stderr, /Traceback/)
  }
})
