import assert from 'node:assert/strict'
import { test } from 'node:test'
import { writeInt8, writeUuid } from '../../../src/kernel/digest.ts'
import { int8Array, textArray, timestamptzArray } from '../../../src/platform/postgres/pipeline.ts'
import fc, { anyChar, runs } from '../../support/fast-check.ts'
import { testDatabase } from '../../support/postgres.ts'

/** What Postgres takes: no NUL, no lone surrogate. */
const text = fc.oneof(
  fc.string(),
  fc.string({ unit: anyChar }).map((value) => value.replaceAll('\0', '').toWellFormed()),
  fc.constantFrom('', '{}', 'NULL', '"', '\\', 'é', '€', '😀'),
)

test('invariant: Postgres reads an array unchanged, for any content', async (t) => {
  const { pool } = await testDatabase(t)
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.option(text)),
      fc.array(fc.maxSafeInteger()),
      fc.array(fc.date({ min: new Date('0002-01-01'), max: new Date('9998-01-01'), noInvalidDate: true })),
      async (texts, numbers, dates) => {
        const times = dates.map((date) => date.toISOString())
        const { rows } = await pool.query(
          'select $1::text[] as texts, $2::bigint[] as numbers, $3::timestamptz[] as times',
          [textArray(texts), int8Array(numbers), timestamptzArray(times)],
        )
        assert.deepEqual({ ...rows[0] }, { texts, numbers, times })
      },
    ),
    { numRuns: runs(200) },
  )
})

test('invariant: safe integers and uuids have the same bytes in Postgres and in the seals', () => {
  const buffer = Buffer.alloc(16)
  fc.assert(
    fc.property(fc.maxSafeInteger(), fc.uuid(), fc.boolean(), (number, uuid, upper) => {
      writeInt8(buffer, number, 4)
      assert.equal(buffer.readBigInt64BE(4), BigInt(number))
      writeUuid(buffer, upper ? uuid.toUpperCase() : uuid, 0)
      assert.equal(buffer.toString('hex'), uuid.replaceAll('-', ''))
    }),
  )
  const uuid = '0199aabb-ccdd-7eef-8001-020304050607'
  for (const odd of [
    '',
    uuid.slice(1),
    `${uuid}0`,
    uuid.replace('7', 'g'),
    uuid.replace('0', 'é'),
    'x'.repeat(36),
  ])
    assert.throws(() => writeUuid(buffer, odd, 0), RangeError, odd)
})
