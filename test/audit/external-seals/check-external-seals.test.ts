import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  type CheckedSeals,
  checkExternalSeals,
  SealMismatchError,
} from '../../../src/audit/external-seals/check-external-seals.ts'
import {
  cosigned,
  lastRun,
  parseRecords,
  parseWitnessFile,
  readRecords,
  type WitnessFile,
  witnessedSeals,
  witnessFileText,
} from '../../../src/audit/external-seals/external-seals.ts'
import { recordName, recordText, type SealRecord } from '../../../src/audit/external-seals/seal-record.ts'
import { keyOf, records, rotationAt, sealAt } from './records.ts'

const service = keyOf(1).publicKey
const witness = keyOf(9)
const signed = ({ file }: CheckedSeals): WitnessFile =>
  parseWitnessFile(witnessFileText(cosigned(file, witness, '2026-11-25T12:00:00.000Z')))
const pinned = async (all: readonly SealRecord[]): Promise<WitnessFile> =>
  signed(await checkExternalSeals(null, all, service))

const refusedAs = async (
  code: string,
  file: WitnessFile | null,
  seen: readonly SealRecord[],
  message: RegExp,
): Promise<void> =>
  assert.rejects(checkExternalSeals(file, seen, service), (error: unknown) => {
    assert.ok(error instanceof SealMismatchError, String(error))
    assert.equal(error.mismatch.code, code, error.message)
    assert.match(error.message, message)
    return true
  })

describe('checking exported seals', () => {
  test('pins the seals, follows key rotations, and accepts new seals', async () => {
    const all = records(20, 5)
    const first = await checkExternalSeals(null, all.slice(0, 4), service)
    assert.equal(first.news, 4)
    const second = await checkExternalSeals(signed(first), all, service)
    assert.equal(second.news, 16)
    assert.equal(second.file.revision, 19)
    assert.deepEqual(second.file, (await checkExternalSeals(null, all, service)).file)
    const again = await checkExternalSeals(signed(second), all.slice(10), service)
    assert.equal(again.news, 0)
    assert.deepEqual(again.file, second.file)
    const seals = witnessedSeals(signed(second), service)
    assert.equal(seals.at(-1)?.throughOrdinal, 180)
    assert.equal(witnessedSeals(signed(second), keyOf(2).publicKey).at(-1)?.throughOrdinal, 180)
  })

  test('stores the last hundred seals and every key rotation', async () => {
    const all = records(250, 30)
    const file = await pinned(all)
    assert.equal(file.records.length, 101)
    assert.equal(file.records[0]?.revision, 30)
    assert.deepEqual([...lastRun(file).keys()].sort((a, b) => a - b)[0], 150)
    const more = records(260, 30)
    assert.equal((await checkExternalSeals(file, more.slice(150), service)).news, 10)
    assert.equal((await checkExternalSeals(file, more, service)).news, 10)
    assert.equal(witnessedSeals(file, service).length, 100)
  })

  test('refuses another history, a truncated end, a changed seal, a gap, an unknown seal and another log', async () => {
    const all = records(12)
    const file = await pinned(all)
    const replaced = (at: number, by: SealRecord): SealRecord[] =>
      all.map((each, n) => (n === at ? by : each))
    const fork = sealAt(7, keyOf(1), 80, 'two')
    await refusedAs(
      'seals_forked',
      file,
      replaced(7, fork),
      /seal 7 has changed, and both versions are signed/,
    )
    const forged = structuredClone(all[7]!) as { event: { data: { digest: string } } } & SealRecord
    forged.event.data.digest = '0'.repeat(64)
    await refusedAs('seals_rewritten', file, replaced(7, forged), /seal 7 has changed, and is not genuine/)
    await refusedAs('seals_rewritten', file, replaced(7, sealAt(7, keyOf(3), 80)), /not genuine/)
    await refusedAs('seals_cut', file, all.slice(0, 11), /ends with seal 10, but seal 11 was there/)
    await refusedAs('seals_cut', file, [], /there is no seal, but seal 11 was there/)
    await refusedAs('seals_missing', file, [...all.slice(0, 5), ...all.slice(6)], /after seal 4 comes seal 6/)
    await refusedAs('seals_missing', file, records(14).slice(12), /those between are missing/)
    await refusedAs(
      'seals_forked',
      file,
      [...all, sealAt(12, keyOf(1), 100)],
      /covers 100 events, fewer than the 120/,
    )
    await refusedAs(
      'seals_forked',
      file,
      [...all, sealAt(12, keyOf(1), 120, 'two')],
      /another digest of the same 120/,
    )
    await refusedAs('seals_not_genuine', file, [...all, sealAt(12, keyOf(3), 130)], /by the key/)
    const handedOver = rotationAt(12, keyOf(1), keyOf(2), all[10]!)
    await refusedAs('seals_forked', file, [...all, handedOver], /covers 110 events, fewer/)
    const wrongRotation = rotationAt(12, keyOf(3), keyOf(2), all[11]!)
    await refusedAs('seals_not_genuine', file, [...all, wrongRotation], /hands over from the key/)
    const other = { ...records(13)[12]!, firstEventId: '01890000-0000-7000-8000-000000000099' }
    await refusedAs('seals_of_another_log', file, [...all, other], /watches the one that begins with/)
    await refusedAs('seals_missing', null, [], /no seal yet/)
    const foreign = records(3).map(({ revision }) => sealAt(revision, keyOf(3), 10 * revision + 10))
    await refusedAs('seals_not_genuine', null, foreign, /none of its seals is by the key/)
  })

  test('finds a change before the last hundred seals when it reads all of them', async () => {
    const all = records(150)
    const file = await pinned(all)
    const changed = all.map((each, n) => (n === 3 ? sealAt(3, keyOf(1), 40, 'two') : each))
    assert.equal((await checkExternalSeals(file, changed.slice(50), service)).news, 0)
    await refusedAs('seals_rewritten', file, changed, /one of before the last 100 was changed/)
    assert.equal((await checkExternalSeals(file, all, service)).news, 0)
  })

  test('orders files by name and lines by position, byte for byte', async () => {
    const all = records(3, 1)
    const texts = new Map(all.map((record) => [recordName(record.revision), recordText(record)]))
    const store = { get: async (name: string) => texts.get(name) ?? null }
    const read = async (from: number): Promise<SealRecord[]> => {
      const found: SealRecord[] = []
      for await (const record of readRecords(store, from)) found.push(record)
      return found
    }
    assert.deepEqual(await read(0), all)
    assert.deepEqual(await read(2), all.slice(2))
    const joined = [...texts.values()].join('')
    assert.deepEqual(parseRecords(joined), all)
    assert.deepEqual(parseRecords(''), [])
    assert.throws(() => parseRecords(joined.slice(0, -1)), /last line has no end/)
    assert.throws(
      () => parseRecords(joined.replace('"revision":0,', '"revision": 0,')),
      /line 1: .*not in the bytes/,
    )
    assert.throws(() => parseRecords(`${joined}{}\n`), /line 4: it is no seal of version 1/)
    assert.throws(() => parseRecords(`${joined}null\n`), /line 4: it is no seal/)
    assert.throws(() => parseRecords(joined.replace('"digest"', '"extra":1,"digest"')), /line 1: its fields/)
    texts.set(recordName(1), recordText(all[2]!))
    await assert.rejects(read(0), /000000000001\.json: it is the seal of revision 2/)
  })

  test('refuses a changed witness file', async () => {
    const text = witnessFileText(await pinned(records(5)))
    assert.equal(parseWitnessFile(text).revision, 4)
    for (const [from, to, says] of [
      ['"since": 0', '"since": 1', /signature is not that of the witness/],
      ['2026-11-25T12:00:00.000Z', '2026-11-25T13:00:00.000Z', /signature is not that of the witness/],
      ['"recordsDigest": "', '"recordsDigest": "x', /no file of a witness: recordsDigest/],
      ['"version": 1', '"version": 2', /no file of a witness: version/],
      ['{', '', /it is no JSON/],
    ] as const)
      assert.throws(() => parseWitnessFile(text.replace(from, to)), says)
    // What lies before the newest seal is covered by the digest alone: its own signature is checked when it is used.
    const file = parseWitnessFile(text)
    const changed = {
      ...file,
      records: file.records.map((each, n) => (n === 1 ? sealAt(1, keyOf(3), 20) : each)),
    }
    assert.throws(() => witnessedSeals(changed, service), /seal 1 of the file is not genuine/)
  })
})
