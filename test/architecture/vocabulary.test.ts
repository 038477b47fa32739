import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const root = join(import.meta.dirname, '../..')

/** Left: a word that the code must not use. Right: its replacement. Names are split into words: `isKept` has `kept`. */
const replacements: Readonly<Record<string, string>> = {
  anew: 'again',
  arbiter: 'allocation owner',
  asked: 'requested, or a noun such as input',
  breach: 'violation',
  breaches: 'violations',
  deps: 'dependencies',
  desk: 'service',
  disturbance: 'difference',
  goods: 'fulfilment',
  hasten: 'deliver now',
  kept: 'cached or stored',
  knock: 'connection attempt',
  law: 'invariant',
  laws: 'invariants',
  lull: 'idle time',
  nobody: 'the name of the group',
  solitude: 'exclusive',
  somebody: 'operator, client, attacker or another noun',
  stranger: 'unauthenticated client',
  tenure: 'leadership',
  thaw: 'resolve',
  told: 'reported or notified',
  whoever: 'operator, client, attacker or another noun',
}

/** Stored and published names with such words. They are contracts and stay, as do the texts of released migrations. */
const contracts = [
  /WorkRetryAsked|workRetryAsked|keptProxyIds|refused_by_arbiter|arbiter-twice|scrape-kept|golden_kept/g,
  /goods-(?:undue|elsewhere|time|named)|audit(?:_due)?[_-]goods|'goods'/g,
  /\basked(?=: oneOf|: _asked|: kind)|_asked\b/g,
  /[lL]awBreachDecided|'breach'|(?:decide-|block-for-)breach|\bbreach-/g,
  /FAREBOX_LAWS|farebox_law_problem|law_broken|law-guard|breaks the law (?=\$)|\blaw: 'rule'/g,
  /ledger breaches|'breaches'|\bbreaches:|\)\.breaches|withoutLaws/g,
  /\bgoods: object/g,
  /\blaws'|(?:projection|rebuild) laws|\bnotes\b.*?\blaws\b/g,
]

const wordsOf = (line: string): readonly string[] =>
  (line.match(/[A-Z]?[a-z]+|[A-Z]+(?![a-z])/g) ?? []).map((word) => word.toLowerCase())

test('names, comments and texts use the words of the field', () => {
  const findings = globSync('{src,projections,tools,bench,test}/**/*.{ts,mjs}', {
    cwd: root,
    exclude: ['**/node_modules'],
  })
    .filter((file) => !/\/(?:migrations|vocabulary\.test)\.ts$/.test(file))
    .sort()
    .flatMap((file) =>
      [file, ...readFileSync(join(root, file), 'utf8').split('\n')].flatMap((line, at) =>
        wordsOf(contracts.reduce((text, contract) => text.replaceAll(contract, ''), line)).flatMap((word) =>
          Object.hasOwn(replacements, word) ? [`${file}:${at}: ${word} → ${replacements[word]}`] : [],
        ),
      ),
    )
  assert.deepEqual(findings, [])
})
