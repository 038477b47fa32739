import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { checkExternalSeals } from '../../../src/audit/external-seals/check-external-seals.ts'
import { parseRecords, parseWitnessFile } from '../../../src/audit/external-seals/external-seals.ts'
import { isSigned, sealKeyOf } from '../../../src/audit/seals/seals-file.ts'
import { makeVectors } from '../../../tools/docs/seal-vectors.ts'
import { checkFiles, checkLog, checkWitness, emptyDigest, NotSealed, signedBy } from './second-checker.ts'

const vectors = JSON.parse(JSON.stringify(makeVectors())) as ReturnType<typeof makeVectors>

describe('the test vectors of seals and exports', () => {
  test('are the same in every release', () => {
    const { about: _, ...values } = vectors
    assert.equal(
      createHash('sha256').update(JSON.stringify(values)).digest('hex'),
      'e15dd71d5fc7bbc213b59a5134980f9c56d866ea97771f69eb2ea57663a6c5bc',
    )
  })

  test('are accepted by the code that reads them', async () => {
    for (const { seed, publicKey } of vectors.keys)
      assert.equal(sealKeyOf(Buffer.from(seed, 'hex')).publicKey, publicKey)
    for (const { text, publicKey, signature } of vectors.statements) {
      assert.ok(isSigned(publicKey, text, signature))
      assert.ok(!isSigned(publicKey, `${text} `, signature))
    }
    const [first] = vectors.keys
    const records = parseRecords(vectors.files.map(({ text }) => text).join(''))
    const file = parseWitnessFile(JSON.stringify(vectors.witness))
    assert.equal((await checkExternalSeals(file, records, first!.publicKey)).news, 0)
    const { file: seen } = await checkExternalSeals(null, records, first!.publicKey)
    assert.equal(seen.recordsDigest, vectors.witness.recordsDigest)
  })

  test('are accepted by a checker that was written only from the documentation, and it locates errors', () => {
    const [first] = vectors.keys
    assert.equal(emptyDigest(), vectors.emptyDigest)
    assert.deepEqual(checkLog(vectors.log, first!.publicKey), vectors.digests)
    for (const { text, publicKey, signature } of vectors.statements)
      assert.ok(signedBy(publicKey, text, signature))
    for (const { what, ordinal, text } of vectors.wrong) {
      assert.throws(() => checkLog(text, first!.publicKey), /another checksum/, what)
      assert.throws(
        () => checkLog(text, first!.publicKey, false),
        (error: unknown) => error instanceof NotSealed && error.ordinal === ordinal,
        what,
      )
    }
    assert.deepEqual(checkFiles(vectors.files, vectors.witness.firstEventId), vectors.recordsDigests)
    assert.equal(vectors.recordsDigests.at(-1), vectors.witness.recordsDigest)
    checkWitness(vectors.witness)
    assert.throws(() => checkWitness({ ...vectors.witness, since: 1 }), /did not sign/)
  })

  test('the checker imports nothing of the service', () => {
    const source = readFileSync(join(import.meta.dirname, 'second-checker.ts'), 'utf8')
    assert.deepEqual(source.match(/from '([^']+)'/g), ["from 'node:crypto'"])
  })
})
