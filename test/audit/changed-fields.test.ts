import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { declaredKinds } from '../support/event-kinds.ts'
import { nameOf, type Tried, tryChanges } from './changed-fields.ts'
import { everyKind } from './world.ts'

const soak = process.env.FAREBOX_SOAK === '1'

/** Events about their own log: other tests check digests, seals and signatures. */
const ofTheLog = /^(?:LogSealed|SealKeyRotated|Period\w+)$/

/** What docs/finance/unchecked-fields.md lists, by the names of `nameOf`: each section has a reason as its heading. */
const listed = (): ReadonlySet<string> => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/finance/unchecked-fields.md'), 'utf8')
  const rows = page
    .split(/^## /m)
    .slice(1)
    .flatMap((section) => {
      const [why = ''] = section.split('\n')
      assert.ok(why.length > 10, `a reason in words: ${why}`)
      return section.match(/^\| `.*$/gm) ?? []
    })
  return new Set(
    rows.flatMap((row) => {
      const names = [...row.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)
      const [types, fields] = [/^[A-Z]/, /^[^A-Z]/].map((form) => names.filter((name) => form.test(name)))
      return types!.flatMap((type) =>
        fields!.map((field) => `${type}${field.startsWith('(') ? ' ' : '.'}${field}`),
      )
    }),
  )
}

const counted = (tried: readonly Tried[]): string => {
  const found = tried.filter((one) => one.found !== null)
  const itself = found.filter((one) => one.found?.itself).length
  return `${tried.length} tried, ${found.length} found (${itself} at the changed event, ${found.length - itself} at one that contradicts it), ${tried.length - found.length} detected by no invariant`
}

/** The figures that a soak prints at its end. */
const print = (line: string): boolean => process.stdout.write(`# ${line}\n`)

test('each field of each kind of event in an unsealed log is covered by an invariant, or listed with a reason', async () => {
  const outside = listed()
  const events = await everyKind()
  // Whether an invariant finds a listed field after all takes longest: the rest of the log is read for each change.
  const tried = tryChanges(events, { most: 4, all: soak, skipped: soak ? new Set() : outside })
  const kinds = new Set(events.map(({ type }) => type))
  assert.deepEqual(
    [...declaredKinds()].filter((kind) => !kinds.has(kind) && !ofTheLog.test(kind)),
    [],
    'every kind is changed',
  )
  const credited = tried.filter(({ type, field }) => type === 'WalletCredited' && field === 'amountMicros')
  assert.ok(credited.length > 0 && credited.every(({ found }) => found?.itself), 'it names the changed event')
  const silent = new Set(
    [...Map.groupBy(tried, nameOf)].flatMap(([name, all]) =>
      all.every(({ found }) => found === null) ? [name] : [],
    ),
  )
  assert.deepEqual(
    [...silent].filter((name) => !outside.has(name)),
    [],
    'no invariant detects the change: write one, or give the reason in docs/finance/unchecked-fields.md',
  )
  if (!soak) return
  // A new invariant finds more: shorten the list then.
  const outdated = [...outside].filter((name) => !silent.has(name))
  for (const [change, all] of Map.groupBy(tried, (one) => one.change))
    print(`fields of unsealed events, ${change}: ${counted(all)}`)
  for (const [type, all] of Map.groupBy(tried, ({ type }) => type))
    print(`fields of ${type}: ${counted(all)}`)
  assert.deepEqual(outdated, [], 'listed in docs/finance/unchecked-fields.md, but an invariant detects it')
})
