import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { isDate, isInstant } from '../../src/kernel/clock.ts'

test('commands accept the same days and instants as the API', () => {
  const texts = [
    '2026-11-21',
    '2028-02-29',
    '2026-02-29',
    '2026-02-30',
    '2026-13-01',
    '2026-1-1',
    '+010000-01-01',
    '2026-11-21T02:30:00Z',
    '2026-11-21T02:30Z',
    '2026-11-21T02:30:00.123456Z',
    '2026-11-21T02:30:00+05:30',
    '2026-11-21T02:30:00+0530',
    '2026-11-21T24:00:00Z',
    '2026-11-21T23:60:00Z',
    '2026-11-21T23:59:60Z',
    '2026-11-21T02:30:00',
    '2026-11-21t02:30:00z',
    '2026-11-21 02:30:00Z',
    '2026-02-30T02:30:00Z',
    '2026-11-21T02:30:00Z\n',
    '',
  ]
  for (const text of texts) {
    assert.equal(isDate(text), z.iso.date().safeParse(text).success, text)
    assert.equal(isInstant(text), z.iso.datetime({ offset: true }).safeParse(text).success, text)
  }
})
