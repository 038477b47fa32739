import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { z } from 'zod'
import { growsTooFast } from './regex-growth.ts'
import { regexesIn, regexesOfSources } from './regex-scan.ts'

/** Values for the expressions in templates of `new RegExp`, so that each template can be tried. */
const standsFor: Readonly<Record<string, string>> = {
  '2 * bytes': '64',
  base62: '0-9A-Za-z',
  escaped: '/api/v1/webhooks/[^/]+/deliveries/[^/]+/redeliver',
  monthWords: 'january|jan|may|may|december|dec',
  prefix: 'fbx_',
  'randomLength + checksumLength': '38',
}

const filled = (template: string): string =>
  template.replaceAll('\\\\', '\\').replaceAll(/\$\{([^}]+)\}/g, (_, expression: string) => {
    const value = standsFor[expression]
    assert.ok(value !== undefined, `say in this test what \${${expression}} of a new RegExp may stand for`)
    return value
  })

/** Each once, with the sources that have it. */
const found = Map.groupBy(regexesOfSources(), (each) =>
  String('literal' in each ? each.literal : new RegExp(filled(each.made), each.flags)),
)
const regexOf = (text: string): RegExp => {
  const end = text.lastIndexOf('/')
  return new RegExp(text.slice(1, end), text.slice(end + 1))
}

describe('Regular expressions of the sources', () => {
  test('are found in every file', () => {
    const sample = readFileSync(join(import.meta.dirname, 'regex-sample.txt'), 'utf8')
    assert.deepEqual(
      regexesIn(sample, 'sample').map((each) =>
        'literal' in each ? String(each.literal) : `${each.made} ${each.flags}`,
      ),
      ['/0+$/', '/[/\\]]x/iu', '/a/g', '/b/', `^\${prefix}[a-z]{2}$ i`, '/c/y'],
    )
    assert.ok(found.size > 100, `${found.size} were found`)
  })

  test('are classified as backtracking or not', () => {
    for (const bad of [
      /0+$/,
      /\s+$/,
      /^(a+)+$/,
      /^(\d+)*x$/,
      /^\d+\d+$/,
      /^token \s*\s*x$/,
      /\{[^}]+\}/,
      /^(\w|\d)+-$/,
      /"(?:[^"\\]|\\.)*"/,
      /a.*b.*c/,
      /^[a-z]*[a-m]*[0-9]$/i,
    ])
      assert.notEqual(growsTooFast(bad), null, String(bad))
    for (const good of [/^0+$/, /^[a-z0-9]+(-[a-z0-9]+)*$/, /\{[^{}]+\}/g, /^token (\S+)$/, /[<>&]/g])
      assert.equal(growsTooFast(good), null, String(good))
  })

  test('that zod uses for formats take at most linear time', () => {
    const { date, datetime, email, uuid } = z.regexes
    for (const regex of [date, datetime({}), datetime({ offset: true }), email, uuid()])
      assert.equal(growsTooFast(regex), null, String(regex))
  })

  for (const [text, places] of found)
    test(`${text} takes at most linear time`, () => {
      const hostile = growsTooFast(regexOf(text))
      assert.equal(hostile, null, places.map(({ where }) => where).join(', '))
    })
})
