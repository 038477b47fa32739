import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { promisify } from 'node:util'
import { recordName, recordText } from '../../../src/audit/external-seals/seal-record.ts'
import { publicKeyPem } from '../../../src/audit/seals/seals-file.ts'
import { surroundings } from '../../support/farebox.ts'
import { startKeeper, startS3 } from '../../support/s3-stand-in.ts'
import { commandLine } from '../command-line.ts'
import { appendEach, everyKind, tamper } from '../world.ts'
import { keyOf, records, sealAt } from './records.ts'

describe('farebox ledger seals deliver', () => {
  test('uploads what a folder lacks and reports problems', async (t) => {
    const { run, runWith, log, file } = await commandLine(t)
    await appendEach(log, (await everyKind()).slice(0, 20))
    await run('ledger', 'seal')
    const unset = await run('ledger', 'seals', 'deliver')
    assert.equal(unset.code, 2)
    assert.match(unset.err, /FAREBOX_SEAL_TARGET is not set: expected file:\/a\/folder, an address such as/)
    const target = { FAREBOX_SEAL_TARGET: `file:${file('seals')}` }
    const deliver = (...more: string[]) => runWith(target, 'ledger', 'seals', 'deliver', ...more)
    const absent = await deliver('--json')
    assert.equal(absent.code, 1)
    assert.equal(absent.json().code, 'seal_target_failed')
    assert.match(absent.err, /the folder .*seals cannot be found \(ENOENT\)/)
    await mkdir(file('seals'))
    assert.match((await deliver()).out, /^delivered 1 seal to file:.*seals$/)
    assert.match((await deliver()).out, /has every seal$/)
    assert.deepEqual(await readdir(file('seals')), ['000000000000.json', 'farebox-probe'])
    const path = file('seals/000000000000.json')
    const content = await readFile(path, 'utf8')
    await rm(path)
    assert.match((await deliver('--again')).out, /^delivered 1 seal/)
    assert.equal(await readFile(path, 'utf8'), content)
    await writeFile(path, content.replace('"revision":0', '"revision":1'))
    const other = await deliver('--again', '--json')
    assert.equal(other.code, 1)
    assert.equal(other.json().code, 'seal_target_differs')
  })
})

const cli = join(import.meta.dirname, '../../../src/cli.ts')

describe('farebox ledger witness', () => {
  test("detects a truncated log with a folder, a server, a bucket and a witness's file", async (t) => {
    const { run, runWith, log, pool, fold, file } = await commandLine(t)
    await appendEach(log, (await everyKind()).slice(0, 60))
    await run('ledger', 'seal')
    await mkdir(file('seals'))
    const keeper = await startKeeper(t, 'letmein')
    const owner = { accessKey: 'AKSEALS', secretKey: 'only/in+env', region: 'us-east-1', bucket: 'seals' }
    const s3 = await startS3(t, owner)
    const places = {
      [`file:${file('seals')}`]: {},
      [keeper.url]: { FAREBOX_SEAL_TARGET_TOKEN: 'letmein', FAREBOX_SEAL_TARGET_PRIVATE: 'on' },
      's3://seals/shop': {
        FAREBOX_SEAL_S3_ENDPOINT: s3.url,
        FAREBOX_SEAL_S3_ACCESS_KEY: owner.accessKey,
        FAREBOX_SEAL_S3_SECRET_KEY: owner.secretKey,
        FAREBOX_SEAL_TARGET_PRIVATE: 'on',
      },
    }
    await writeFile(file('public.pem'), (await run('ledger', 'seals', 'public-key')).out)
    for (const [n, [place, access]] of Object.entries(places).entries()) {
      const env = { FAREBOX_SEAL_TARGET: place, ...access }
      assert.equal((await runWith(env, 'ledger', 'seals', 'deliver')).code, 0, place)
      const own = ['--state', file(`${n}.json`), '--key', file(`${n}.key`)]
      const first = await runWith(env, 'ledger', 'witness', ...own, '--json')
      assert.equal(first.code, 2, 'the key of the service is needed once')
      const looked = await runWith(
        env,
        'ledger',
        'witness',
        ...own,
        '--public-key',
        file('public.pem'),
        '--json',
      )
      assert.equal(looked.code, 0, looked.err)
      assert.equal(looked.json().throughOrdinal, 60)
      await writeFile(file(`${n}.hex`), looked.json().witness.publicKey)
      const again = await runWith(access, 'ledger', 'witness', ...own, '--from', place, '--all', '--json')
      assert.deepEqual([again.code, again.json().new], [0, 0], again.err)
    }
    const byWitness = ['--witness', file('2.json'), '--witness-key', file('2.hex')]
    const bySeals = Object.entries(places).map(([place, access]) => ({ access, args: ['--seals', place] }))
    const clean = await run('ledger', 'verify', '--seals', `file:${file('seals')}`, ...byWitness, '--json')
    const { findings, seals } = clean.json().result
    assert.equal(seals.exported, 2)
    const about = findings.filter(({ check }: { check: string }) => check === 'seals')
    assert.deepEqual(about, [], 'the tables were not folded yet, and the seals are right')
    const [other] = [
      await run('ledger', 'verify', '--witness', file('0.json'), '--witness-key', file('1.hex')),
    ]
    assert.equal(other.code, 2)
    assert.match(other.err, /the witness [0-9a-f]{64} signed it, not [0-9a-f]{64}/)
    await tamper(
      pool,
      ['delete from log.events where position > 50'],
      ['update log.head set last_position = 50'],
      ['delete from work.event_digests'],
    )
    await fold()
    const alone = await run('ledger', 'verify', '--max-unsealed', '50')
    assert.equal(alone.code, 0, `nothing in the log says that there was more: ${alone.err}`)
    for (const { access, args } of [...bySeals, { access: {}, args: byWitness }]) {
      const { code, err } = await runWith(access, 'ledger', 'verify', ...args)
      assert.equal(code, 1, `${args.join(' ')}: ${err}`)
      assert.match(
        err,
        /the log ends with event 50, but the exported seal of .* covers 60 events: it was cut off/,
      )
    }
  })

  test('runs without a database, from a folder or standard input, and keeps its pins on a mismatch', async (t) => {
    const { file, runWith } = await commandLine(t)
    const all = records(6, 3)
    const put = async (...some: readonly (typeof all)[number][]): Promise<void> => {
      for (const record of some)
        await writeFile(file(`seals/${recordName(record.revision)}`), recordText(record))
    }
    await mkdir(file('seals'))
    await put(...all.slice(0, 5))
    await writeFile(file('service.pem'), publicKeyPem(keyOf(1).publicKey))
    const own = ['--state', file('shop.json'), '--key', file('witness.key')]
    const witness = (...more: string[]) => runWith({}, 'ledger', 'witness', ...own, ...more)
    const folder = ['--from', `file:${file('seals')}`]
    for (const [args, says] of [
      [[...folder], /the first run needs --public-key/],
      [['--public-key', file('service.pem')], /--from is missing, and FAREBOX_SEAL_TARGET is not set/],
      [['--from', 'ftp://a.example'], /It must be file:\/a\/folder/],
      [['--from', 's3://seals', '--public-key', file('service.pem')], /needs FAREBOX_SEAL_S3_ACCESS_KEY/],
    ] as const) {
      const { code, err } = await witness(...args)
      assert.equal(code, 2, err)
      assert.match(err, says)
    }
    const first = await witness(...folder, '--public-key', file('service.pem'))
    assert.equal(first.code, 0, first.err)
    assert.match(first.out, /new seals +5\nnewest seal +4\ncovers events +30\n/)
    const pinned = await readFile(file('shop.json'), 'utf8')
    await put(sealAt(4, keyOf(2), 30, 'two'))
    const fork = await witness(...folder, '--json')
    assert.equal(fork.code, 1)
    const { code, pinned: was, seen } = fork.json()
    assert.deepEqual([code, was.revision, seen.revision], ['seals_forked', 4, 4])
    assert.notEqual(was.event.data.digest, seen.event.data.digest)
    await writeFile(file(`seals/${recordName(4)}`), 'ha')
    assert.equal((await witness(...folder, '--json')).json().code, 'seals_not_genuine')
    await rm(file(`seals/${recordName(4)}`))
    assert.match(
      (await witness(...folder)).err,
      /ends with seal 3, but seal 4 was there at .*cut off\. .*is unchanged/,
    )
    assert.equal(await readFile(file('shop.json'), 'utf8'), pinned, 'untouched')
    await put(...all)
    // In a separate process without any setting.
    const command = `cat seals/*.json | '${process.execPath}' '${cli}' ledger witness --state shop.json --key witness.key --from - --json`
    const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', command], {
      cwd: file(''),
      env: surroundings(),
    })
    const { new: news, throughOrdinal, publicKey } = JSON.parse(stdout)
    assert.deepEqual([news, throughOrdinal, publicKey], [1, 40, keyOf(2).publicKey])
    const old = await witness(...folder, '--max-age-hours', '1', '--json')
    assert.deepEqual([old.code, old.json().code], [1, 'seals_stale'])
    await rm(file('witness.key'))
    assert.match(
      (await witness(...folder)).err,
      /witness\.key cannot be read/,
      'it is made for a first look alone',
    )
    await writeFile(file('witness.key'), Buffer.alloc(32, 7).toString('base64'))
    assert.match((await witness(...folder)).err, /holds the key .* signed what this witness saw before/)
    await writeFile(file('shop.json'), pinned.replace('"since": 0', '"since": 1'))
    const changed = await witness(...folder)
    assert.deepEqual([changed.code, /it was changed/.test(changed.err)], [2, true])
  })
})
