import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { describe, test } from 'node:test'
import { sealerLock } from '../../src/audit/seals/sealing.ts'
import { sealKeyOf } from '../../src/audit/seals/seals-file.ts'
import { isSelfSigned } from '../../src/kernel/streams.ts'
import { tryLock, unlock } from '../../src/platform/postgres/locks.ts'
import { commandLine, secret } from './command-line.ts'
import { appendEach, everyKind, tamper } from './world.ts'

type World = Awaited<ReturnType<typeof commandLine>>

/** As with a running server, which seals by itself. */
const whileServing = async <Done>({ pool }: World, work: () => Promise<Done>): Promise<Done> => {
  const server = await pool.connect()
  try {
    assert.ok(await tryLock(server, sealerLock))
    const done = await work()
    await unlock(server, sealerLock)
    return done
  } finally {
    server.release(true)
  }
}

const publicKeyFile = async ({ run, file }: World): Promise<string> => {
  await writeFile(file('public.pem'), (await run('ledger', 'seals', 'public-key')).out)
  return file('public.pem')
}

describe('farebox ledger seal, seals and verify', () => {
  test('seals, lists, exports and verifies a log, and keeps every run', async (t) => {
    const world = await commandLine(t)
    const { run, log, fold, file } = world
    assert.equal(
      (await run('ledger', 'seals', 'list')).out,
      'nothing is sealed yet; "ledger seal" seals the log',
    )
    assert.equal((await run('ledger', 'seals', 'export', '--file', file('none.json'))).code, 1)
    const events = await everyKind()
    await appendEach(log, events.slice(0, 90))
    assert.equal((await run('ledger', 'seal')).out, 'sealed the log up to event 90')
    assert.deepEqual((await run('ledger', 'seal', '--json')).json(), { sealed: false, throughOrdinal: null })
    assert.equal((await run('ledger', 'seals', 'list', '--json')).json().seals[0].throughOrdinal, 90)
    const exported = await run('ledger', 'seals', 'export', '--file', file('seals.json'))
    assert.match(exported.out, /^wrote 1 seal to .*; the last covers 90 events$/)
    assert.equal((await run('ledger', 'seals', 'export', '--file', file('seals.json'))).code, 2)
    await appendEach(log, events.slice(90))
    await fold()
    const args = ['--seals', file('seals.json'), '--public-key', await publicKeyFile(world)]
    const [held, verified] = await whileServing(world, async () => [
      await run('ledger', 'verify', ...args),
      (await run('ledger', 'verify', '--json')).json(),
    ])
    // What proves itself, such as the key of a process, wants no seal.
    const notSealed = events.slice(90).filter(({ stream }) => !isSelfSigned(stream)).length
    const { code, out, err } = held
    assert.equal(code, 0, err)
    assert.match(out, new RegExp(`not sealed yet +${notSealed}\\n[\\s\\S]*nothing is wrong$`))
    assert.equal(verified.outcome, 'clean')
    assert.equal(verified.result.events, events.length + 1)
    const runs = (await run('ledger', 'verifications', '--json')).json()
    assert.equal(runs.total, 2)
    assert.equal(runs.verifications[0].runId, verified.runId)
    assert.match(runs.verifications[0].actor, /^operator:/)
    assert.deepEqual([verified.running, verified.maxUnsealed], [true, null])
    const stopped = await run('ledger', 'verify')
    assert.equal(stopped.code, 1, stopped.out)
    assert.match(stopped.err, /events not sealed yet, and no auditor is running that would seal them/)
    const unsealed = verified.result.seals.unsealed
    assert.equal(unsealed, notSealed)
    assert.equal((await run('ledger', 'verify', '--max-unsealed', String(unsealed))).code, 0)
    const tail = await run('ledger', 'verify', '--max-unsealed', String(unsealed - 1))
    assert.equal(tail.code, 1)
    assert.match(tail.err, new RegExp(`${unsealed} events not sealed yet, and --max-unsealed allows`))
    await run('ledger', 'seal')
    await fold()
    const whole = await run('ledger', 'verify')
    assert.equal(whole.code, 0, whole.err)
    assert.equal((await run('ledger', 'verify', '--max-unsealed', '-1')).code, 2)
  })

  test('chains the runs, and finds a changed, removed or inserted run', async (t) => {
    const { run, log, pool, fold } = await commandLine(t)
    await appendEach(log, (await everyKind()).slice(0, 20))
    await run('ledger', 'seal')
    await fold()
    const old = (await run('ledger', 'verify', '--json')).json().runId
    await pool.query('update work.verifications set link = null, link_digest = null') // as of an older version
    const ids: string[] = []
    for (let count = 0; count < 3; count += 1)
      ids.push((await run('ledger', 'verify', '--json')).json().runId)
    const listed = async () => run('ledger', 'verifications', '--json')
    const good = await listed()
    assert.equal(good.code, 0, good.err)
    assert.equal(good.json().chain.links, 3)
    assert.match((await run('ledger', 'verifications')).out, /\n3 runs chained, digest [0-9a-f]{64}$/)
    await pool.query('create table work.saved as select * from work.verifications')
    const insert = (id: string, link: string) => `insert into work.verifications
      select '${id}', log_id, actor, started_at, finished_at, outcome, result, ${link}, link_digest
        from work.verifications where run_id = '${ids[2]}'`
    const cases: readonly (readonly [change: string, says: RegExp])[] = [
      [
        `update work.verifications set result = jsonb_set(result, '{findingCount}', '1') where run_id = '${ids[1]}'`,
        new RegExp(`^run ${ids[1]} \\(link 2\\) does not fit`),
      ],
      [
        `update work.verifications set actor = 'operator:forged' where run_id = '${ids[2]}'`,
        new RegExp(`^run ${ids[2]} \\(link 3\\) does not fit`),
      ],
      [
        `delete from work.verifications where run_id = '${ids[1]}'`,
        new RegExp(`^before run ${ids[2]} \\(link 3\\) 1 of the chain is missing`),
      ],
      [insert('vrf_inserted', '4'), /^run vrf_inserted \(link 4\) does not fit/],
      [insert('vrf_inserted', 'null'), new RegExp(`^run ${ids[0]} .*before the chain`)],
      [
        `delete from work.verifications where run_id = '${old}'`,
        new RegExp(`^run ${ids[0]} .*before the chain`),
      ],
    ]
    for (const [n, [change, says]] of cases.entries()) {
      await pool.query(change)
      const { chain } = (await listed()).json()
      assert.match(chain.findings[0] ?? '', says, change)
      assert.equal((await run('ledger', 'verifications')).code, 1)
      if (n === 0) {
        const verified = await run('ledger', 'verify')
        assert.equal(verified.code, 1, change)
        assert.ok(verified.err.includes(`DIFFERENT verifications: ${chain.findings[0]}`), verified.err)
      }
      await pool.query('delete from work.verifications')
      await pool.query('insert into work.verifications select * from work.saved')
    }
    assert.equal((await listed()).code, 0)
  })

  test('names every table that it does not check', async (t) => {
    const { run, log, pool, fold } = await commandLine(t)
    await appendEach(log, (await everyKind()).slice(0, 20))
    await run('ledger', 'seal')
    await fold()
    await pool.query('create table vault.added_later (id text)')
    const { code, out, err } = await run('ledger', 'verify')
    assert.equal(code, 0, err)
    assert.match(out, /^not checked, vault: added_later, .*replacement_comments/m)
    assert.match(out, /^not checked, work: .*traffic_reporters/m)
    assert.match(out, /not by invariants: the fields of docs\/finance\/audit-coverage\.md$/m)
    const { outside } = (await run('ledger', 'verify', '--json')).json()
    assert.ok(outside.vault.includes('added_later'))
    assert.ok(outside.engine.includes('checkpoints'))
    for (const table of ['event_digests', 'traffic', 'verifications'])
      assert.ok(!outside.work.includes(table), `${table} is held against the log`)
    for (const table of ['api_keys', 'webhook_values', 'reseller_credentials', 'customers'])
      assert.ok(!outside.vault.includes(table), `events commit to what ${table} holds`)
  })

  test('names a changed event and a changed cell, and exits with 1', async (t) => {
    const { run, log, fold, pool } = await commandLine(t)
    await appendEach(log, await everyKind())
    await run('ledger', 'seal')
    await fold()
    await tamper(pool, [`update log.events set metadata = metadata || ' ' where position = 50`])
    await pool.query(
      'update read.balances set available_micros = available_micros + 1 where account_id = $1',
      ['acc_golden_buyer'],
    )
    const { code, err } = await run('ledger', 'verify')
    assert.equal(code, 1)
    assert.match(err, /DIFFERENT seals: event 50 \([^)]*\): it was changed/)
    assert.match(
      err,
      /DIFFERENT projections: read\.balances \{"account_id":"acc_golden_buyer"\}: available_micros is (\d+), the log says \d+/,
    )
    const { verifications } = (await run('ledger', 'verifications', '--json')).json()
    assert.equal(verifications[0].outcome, 'differs')
    assert.equal(verifications[0].result.findingCount, 2)
  })

  test('finds a truncated log, seals and digests included, by an exported seal', async (t) => {
    const world = await commandLine(t)
    const { run, log, pool, file } = world
    await appendEach(log, await everyKind())
    await run('ledger', 'seal')
    await run('ledger', 'seals', 'export', '--file', file('seals.json'))
    await tamper(
      pool,
      ['delete from log.events where position > 95'],
      ['update log.head set last_position = 95'],
      ['delete from work.event_digests'],
    )
    await world.fold()
    const alone = await run('ledger', 'verify', '--max-unsealed', '95')
    assert.equal(alone.code, 0, `nothing in the log says that there was more: ${alone.err}`)
    const args = ['--seals', file('seals.json'), '--public-key', await publicKeyFile(world)]
    const { code, err } = await run('ledger', 'verify', ...args)
    assert.equal(code, 1)
    assert.match(
      err,
      /the log ends with event 95, but the exported seal of .* covers \d+ events: it was cut off/,
    )
  })

  test('finds a log that was completely rewritten and signed with another key', async (t) => {
    const world = await commandLine(t)
    const { run, runWith, log, pool, file } = world
    await appendEach(log, await everyKind())
    await run('ledger', 'seal')
    await run('ledger', 'seals', 'export', '--file', file('seals.json'))
    const pinned = await publicKeyFile(world)
    // As the owner of the database would: other events, their digests, and seals by a key of his own.
    await tamper(
      pool,
      [`delete from log.events where stream = 'seal'`],
      ['update log.head set last_position = (select max(position) from log.events)'],
      ['delete from work.event_digests'],
      [`update log.events set metadata = replace(metadata, '"golden"', '"forged"')`],
      [`delete from vault.key_fingerprint where name = 'seal'`],
    )
    const forger = { FAREBOX_SEAL_KEY: secret() }
    assert.equal((await runWith(forger, 'ledger', 'seal')).code, 0)
    await world.fold()
    const byKey = await runWith(forger, 'ledger', 'verify', '--public-key', pinned)
    assert.equal(byKey.code, 1)
    assert.match(byKey.err, /none of its 1 seals is by the key [0-9a-f]{64}/)
    const bySeals = await runWith(
      forger,
      'ledger',
      'verify',
      '--public-key',
      pinned,
      '--seals',
      file('seals.json'),
    )
    assert.equal(bySeals.code, 1)
    assert.match(
      bySeals.err,
      /events 1 to \d+: they are not what the exported seal of .* covers: the log was rewritten/,
    )
  })

  test('rotates to a key that the previous key signed', async (t) => {
    const world = await commandLine(t)
    const { run, runWith, log, file, fold } = world
    const events = await everyKind()
    await appendEach(log, events.slice(0, 50))
    await run('ledger', 'seal')
    const first = await publicKeyFile(world)
    const next = secret()
    await writeFile(file('new.key'), next)
    const rotated = await run('ledger', 'seals', 'rotate-key', '--new-key-file', file('new.key'), '--json')
    assert.equal(rotated.code, 0, rotated.out)
    assert.equal(rotated.json().publicKey, sealKeyOf(Buffer.from(next, 'base64')).publicKey)
    const former = await run('ledger', 'seal')
    assert.match(former.err, /FAREBOX_SEAL_KEY is not the key that this database was made with/)
    const renewed = { FAREBOX_SEAL_KEY: next }
    await appendEach(log, events.slice(50))
    assert.equal((await runWith(renewed, 'ledger', 'seal')).code, 0)
    await runWith(renewed, 'ledger', 'seals', 'export', '--file', file('seals.json'))
    await fold()
    await writeFile(file('second.hex'), sealKeyOf(Buffer.from(next, 'base64')).publicKey)
    // A client that pinned the first key follows it to the second; a client that starts with the second needs
    // no other.
    for (const key of [first, file('second.hex')]) {
      const verified = await runWith(
        renewed,
        'ledger',
        'verify',
        '--public-key',
        key,
        '--seals',
        file('seals.json'),
      )
      assert.equal(verified.code, 0, verified.err)
    }
    const again = await runWith(renewed, 'ledger', 'seals', 'rotate-key', '--new-key-file', file('new.key'))
    assert.equal(again.code, 2)
  })

  test('refuses invalid files with exit code 2 and writes nothing', async (t) => {
    const world = await commandLine(t)
    const { run, log, file } = world
    await appendEach(log, (await everyKind()).slice(0, 20))
    await run('ledger', 'seal')
    await run('ledger', 'seals', 'export', '--file', file('seals.json'))
    const good = JSON.parse(await readFile(file('seals.json'), 'utf8'))
    const key = await publicKeyFile(world)
    const write = (name: string, content: unknown): Promise<void> =>
      writeFile(file(name), typeof content === 'string' ? content : JSON.stringify(content))
    await write('text.json', 'seals')
    await write('other.json', { format: 'farebox-export' })
    const changed = structuredClone(good)
    changed.seals[0].data.throughOrdinal = 19
    await write('changed.json', changed)
    await write('elsewhere.json', {
      ...good,
      logId: 'another',
      firstEventId: good.seals[0].data.throughEventId,
    })
    await write('key.pem', '-----BEGIN PUBLIC KEY-----\nnothing\n-----END PUBLIC KEY-----')
    await write('other.hex', sealKeyOf(randomBytes(32)).publicKey)
    const head = await log.head()
    const wrong: readonly (readonly [args: string[], says: RegExp])[] = [
      [['--seals', file('absent.json')], /absent\.json cannot be read: ENOENT/],
      [['--seals', file('text.json')], /it is no JSON/],
      [['--seals', file('other.json')], /it is no file of seals/],
      [
        ['--seals', file('changed.json')],
        /seal 1 of the file is not genuine: its signature is not that of its key/,
      ],
      [['--seals', file('elsewhere.json')], /holds the seals of the log another/],
      [['--public-key', file('key.pem')], /holds no Ed25519 public key/],
      [['--public-key', file('absent.pem')], /cannot be read/],
      [['--public-key', file('other.hex'), '--seals', file('seals.json')], /none of its seals is by the key/],
      [['--seals'], /argument missing/],
    ]
    for (const [args, says] of wrong) {
      const { code, err } = await run('ledger', 'verify', ...args)
      assert.equal(code, 2, `${args.join(' ')}: ${err}`)
      assert.match(err, says)
    }
    for (const args of [['--new-key-file', file('text.json')], ['--new-key-file', file('absent')], []])
      assert.equal((await run('ledger', 'seals', 'rotate-key', ...args)).code, 2)
    assert.equal(await log.head(), head)
    assert.equal((await run('ledger', 'verifications', '--json')).json().total, 0)
    assert.ok(key)
  })
})
