import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkReturnUrl } from '../../../src/features/deposits/deposit-urls.ts'
import { parseHttpsUrl } from '../../../src/features/resellers/terms-input.ts'
import { ApiError } from '../../../src/platform/http/errors.ts'

const tricks = [
  'https:evil.example',
  'https:/evil.example',
  'https:///evil.example',
  'https:\\\\evil.example',
  'https:/\\evil.example',
  'https://shop.example\\@evil.example',
  'https://shop.example@evil.example',
  'https://:@evil.example',
  'https://@evil.example',
  'https://',
  'https://?a',
  'http://shop.example',
  '//evil.example',
  'javascript:alert(1)//https://',
  ' https://shop.example',
  'ht\ntps://shop.example',
  'https://shop.example/\r\nset-cookie:a',
  'https://shop.example/a b',
  'https://shop.example/\u0000',
]

test('return_url must be https:// and a host; a URL that resembles another address is refused', () => {
  for (const text of [...tricks, `https://shop.example/${'a'.repeat(2_000)}`])
    assert.throws(
      () => checkReturnUrl(text),
      (error) => error instanceof ApiError && error.code === 'invalid_url',
      text,
    )
  for (const text of [
    'https://shop.example',
    'HTTPS://shop.example/a?b=1&c=@me#d',
    'https://shop.example:8443/{id}?next=https://a.example',
    'https://[2001:db8::1]/',
    'https://203.0.113.7?a',
  ])
    assert.equal(checkReturnUrl(text), text)
})

test("a reseller's website and storefront accept the same URLs, and names of other alphabets", () => {
  for (const text of tricks) assert.throws(() => parseHttpsUrl(text), /It must start with https:/, text)
  assert.equal(parseHttpsUrl('https://münchen.example'), 'https://xn--mnchen-3ya.example/')
})
