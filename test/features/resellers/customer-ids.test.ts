import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseExternalId } from '../../../src/kernel/external-id.ts'

test('an external id is 1 to 128 printable characters, without surrounding blanks', () => {
  for (const [text, id] of [
    ['alice-17', 'alice-17'],
    [' \talice 17\t ', 'alice 17'],
    ['Zoë 🦊', 'Zoë 🦊'],
    ['🦊'.repeat(128), '🦊'.repeat(128)],
    ['Zoe\u0308', 'Zo\u00eb'],
    // No header can end with one, and no blank of HTTP is taken off behind it.
    ['alice\u00a0', 'alice\u00a0'],
  ] as const)
    assert.equal(parseExternalId(text), id)
  for (const none of ['', ' ', '\t', 'a\tb', 'a\nb', 'a\u0000', '\u200b', '\ud800', 'x'.repeat(129)])
    assert.equal(parseExternalId(none), null, JSON.stringify(none))
})

test('a long hostile text is checked in little time', () => {
  const before = process.cpuUsage()
  for (const text of [' '.repeat(1_000_000), `${' \t'.repeat(500_000)}x`, `x${' '.repeat(1_000_000)}y`])
    parseExternalId(text)
  assert.ok(process.cpuUsage(before).user < 500_000)
})
