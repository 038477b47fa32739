import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseCap } from '../../../src/features/accounts/key-pages.ts'
import { isOwnForm } from '../../../src/platform/ui/cookies.ts'
import { parseFormInput } from '../../../src/platform/ui/form.ts'
import {
  amountText,
  bytesText,
  dollarText,
  microsText,
  pageInZone,
  parseCents,
  textInZone,
  timeText,
  zoneOf,
  zones,
} from '../../../src/platform/ui/text.ts'
import { codeIn, shownCode } from '../../../src/platform/vault/secrets.ts'
import { parseMail } from '../../../src/sandbox/mailbox.ts'
import fc from '../../support/fast-check.ts'

const plain = (text: string): string => text.replaceAll(',', '').replace('\u2212', '-')

test('money is written without arithmetic: the text read back is the amount', () => {
  fc.assert(
    fc.property(fc.maxSafeInteger(), (cents) => {
      assert.match(amountText(cents), /^\u2212?\d{1,3}(,\d{3})*\.\d\d$/)
      assert.equal(BigInt(plain(amountText(cents)).replace('.', '')), BigInt(cents))
    }),
  )
  fc.assert(
    fc.property(fc.maxSafeInteger(), (micros) => {
      const [whole = '', fraction = ''] = plain(microsText(micros)).split('.')
      assert.equal(BigInt(whole.replace('-', '') + fraction.padEnd(6, '0')), BigInt(Math.abs(micros)))
      assert.ok(fraction.length >= 2)
    }),
  )
  assert.deepEqual(
    [
      amountText(0),
      amountText(-5),
      dollarText(-123_456),
      dollarText(100),
      microsText(3_000),
      microsText(-2_500_000),
    ],
    ['0.00', '\u22120.05', '\u2212$1,234.56', '$1.00', '0.003', '\u22122.50'],
  )
})

test('typed dollars are exactly those cents, or refused', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 1_000_000_000 }), (cents) => {
      assert.equal(parseCap(amountText(cents)), cents)
    }),
  )
  assert.deepEqual(
    [parseCap(''), parseCap('1.005'), parseCap('-1'), parseCap('1e3'), parseCap('10000000.01')],
    [null, undefined, undefined, undefined, undefined],
  )
})

test('bytes are written in a fitting unit and never rounded up', () => {
  assert.deepEqual([0, 999, 1_000, 1_999_999_999, 5_000_000_000, 7_650_000_000].map(bytesText), [
    '0 B',
    '999 B',
    '1 kB',
    '1.99 GB',
    '5 GB',
    '7.65 GB',
  ])
})

test('a form is accepted only from its own page', () => {
  const origin = 'https://shop.example'
  assert.equal(isOwnForm({ 'sec-fetch-site': 'same-origin' }, origin), true)
  assert.equal(isOwnForm({ 'sec-fetch-site': 'none' }, origin), true)
  assert.equal(isOwnForm({ 'sec-fetch-site': 'same-site', origin }, origin), false)
  assert.equal(isOwnForm({ origin }, origin), true)
  assert.equal(isOwnForm({ origin: 'http://shop.example' }, origin), false)
  assert.equal(isOwnForm({ cookie: 'a=b' }, origin), false)
})

test('codes are accepted in the form in which they are shown', () => {
  assert.equal(codeIn(shownCode('01234567')), '01234567')
  assert.deepEqual([codeIn('1234567'), codeIn('12345678x'), codeIn('')], [null, null, null])
})

test('a form with a lone surrogate, a NUL or thousands of fields is refused', () => {
  for (const bytes of [
    Buffer.from([0x61, 0x3d, 0xff]),
    Buffer.from('a=%00'),
    Buffer.from('a=1&'.repeat(400)),
  ])
    assert.throws(() => parseFormInput(bytes), { code: 'invalid_body' })
})

test('an instant is the same in every zone, and nothing else on a page changes', () => {
  const at = '2026-11-26T02:10:11.000Z'
  assert.equal(textInZone(at, 'Asia/Kolkata'), '2026-11-26 07:40 UTC+5:30')
  assert.equal(textInZone(at, 'America/New_York'), '2026-11-25 21:10 UTC\u22125')
  assert.equal(textInZone('2026-07-01T23:30:00.000Z', 'Europe/Berlin'), '2026-07-02 01:30 UTC+2')
  const day = '<time datetime="2026-11-26">2026-11-26</time>'
  assert.equal(
    pageInZone(`<p>${timeText(at).html} &lt;time datetime="${at}"&gt; ${day}</p>`, 'Europe/Berlin'),
    `<p><time datetime="${at}">2026-11-26 03:10 UTC+1</time> &lt;time datetime="${at}"&gt; ${day}</p>`,
  )
  for (const zone of zones) assert.match(textInZone(at, zone), /^2026-11-2[56] \d\d:\d\d UTC/, zone)
  for (const none of ['UTC', 'Nowhere', '', null]) assert.equal(zoneOf(none), null)
})

test('letters are read in every encoding of a form', () => {
  const letter = (encoding: string, body: string) =>
    parseMail(
      `From: a@b.example\r\nSubject: =?utf-8?B?R3LDvMOfZQ==?=\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n${body}`,
    )
  assert.deepEqual(letter('quoted-printable', 'Stra=C3=\r\n=9Fe=3D'), { subject: 'Grüße', text: 'Straße=' })
  assert.deepEqual(letter('base64', Buffer.from('Straße').toString('base64')).text, 'Straße')
  assert.deepEqual(letter('7bit', 'one\r\n\r\ntwo').text, 'one\n\ntwo')
})

test('a comma in a typed amount separates thousands, and is not a decimal point', () => {
  for (const [typed, cents] of [
    ['25', 2_500],
    ['$1,000.50', 100_050],
    ['1,234,567.5', 123_456_750],
    ['25,50', undefined],
    ['1,0000', undefined],
    ['1234,567', undefined],
    ['1,000,50', undefined],
    [',500', undefined],
  ] as const)
    assert.equal(parseCents(typed, 1e12), cents, typed)
})
