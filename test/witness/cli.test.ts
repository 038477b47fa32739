import assert from 'node:assert/strict'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { describe, test } from 'node:test'
import { commandLine } from '../audit/command-line.ts'
import { appendEach, everyKind } from '../audit/world.ts'

describe('farebox ledger seals deliver', () => {
  test('brings what a folder has not, and says what is wrong', async (t) => {
    const { run, runWith, log, file } = await commandLine(t)
    await appendEach(log, (await everyKind()).slice(0, 20))
    await run('ledger', 'seal')
    const unset = await run('ledger', 'seals', 'deliver')
    assert.equal(unset.code, 2)
    assert.match(unset.err, /FAREBOX_SEAL_TARGET is not set: expected file:\/a\/folder, an address such as/)
    const target = { FAREBOX_SEAL_TARGET: `file:${file('kept')}` }
    const deliver = (...more: string[]) => runWith(target, 'ledger', 'seals', 'deliver', ...more)
    const absent = await deliver('--json')
    assert.equal(absent.code, 1)
    assert.equal(absent.json().code, 'seal_target_failed')
    assert.match(absent.err, /the folder .*kept cannot be found \(ENOENT\)/)
    await mkdir(file('kept'))
    assert.match((await deliver()).out, /^brought 1 seal to file:.*kept$/)
    assert.match((await deliver()).out, /has every seal$/)
    assert.deepEqual(await readdir(file('kept')), ['000000000000.json'])
    const path = file('kept/000000000000.json')
    const kept = await readFile(path, 'utf8')
    await rm(path)
    assert.match((await deliver('--again')).out, /^brought 1 seal/)
    assert.equal(await readFile(path, 'utf8'), kept)
    await writeFile(path, kept.replace('"revision":0', '"revision":1'))
    const other = await deliver('--again', '--json')
    assert.equal(other.code, 1)
    assert.equal(other.json().code, 'seal_target_differs')
  })
})
