import assert from 'node:assert/strict'
import { test } from 'node:test'
import { retryAfterMs } from '../../../src/platform/outgoing/retry-after.ts'

const nowMs = Date.parse('2026-11-27T00:00:00Z')
const yearMs = 31_536_000_000

for (const [header, expected] of [
  ['120', 120_000],
  [' 0 ', 0],
  ['120, 120', 120_000],
  ['100000000000000000000', yearMs],
  ['9'.repeat(400), yearMs],
  ['Fri, 27 Nov 2026 00:01:00 GMT', 60_000],
  ['Friday, 27-Nov-26 00:01:00 GMT', 60_000],
  ['Fri Nov 27 00:01:00 2026', 60_000],
  ['Fri, 27 Nov 2026 02:01:00 +0200', 60_000],
  ['Thu, 26 Nov 2026 00:00:00 GMT', 0],
  ['Fri, 27 Nov 2999 00:00:00 GMT', yearMs],
  ['-5', null],
  ['+5', null],
  ['1.5', null],
  ['1e3', null],
  ['soon', null],
  ['soon 2', null],
  ['in 3000', null],
  ['Fri, 99 Nov 2026 00:00:00 GMT', null],
  ['', null],
  [null, null],
  [undefined, null],
] as const)
  test(`a Retry-After of ${JSON.stringify(header)?.slice(0, 60)} is ${expected} ms`, () => {
    assert.equal(retryAfterMs(header, nowMs), expected)
  })
