import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  dropExpired,
  emptyRemembered,
  findRemembered,
  type Remembered,
  remember,
  rememberedCount,
  rememberedFromJson,
  rememberedMs,
  rememberedText,
  remembersSince,
} from '../../src/kernel/recent-ids.ts'
import fc from '../support/fast-check.ts'

type Fact = readonly [id: string, atMs: number, value: { readonly says: string }]
/** The set under test, and the same as a plain list, oldest first. */
type Version = {
  readonly remembered: Remembered<Fact[2]>
  readonly facts: readonly Fact[]
  readonly nowMs: number
}
type Step =
  | { readonly kind: 'remember'; readonly count: number; readonly apartMs: number }
  | { readonly kind: 'forget'; readonly laterMs: number }
  | { readonly kind: 'restore' }

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('remember'),
      count: fc.integer({ min: 1, max: 90 }),
      apartMs: fc.constantFrom(0, 1, 3_600_000),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('forget'),
      laterMs: fc.constantFrom(1, rememberedMs / 2, rememberedMs + 1),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('restore') }) },
)

/** Ids as providers and operators may write them. */
const endings = fc.array(fc.string({ unit: 'grapheme', maxLength: 6 }), { minLength: 1, maxLength: 5 })

const first: Version = { remembered: emptyRemembered(), facts: [], nowMs: 1_790_000_000_000 }

const after = (before: Version, taken: Step, newFact: (atMs: number) => Fact): Version => {
  let { remembered, facts, nowMs } = before
  if (taken.kind === 'restore')
    return {
      ...before,
      remembered: rememberedFromJson(JSON.parse(rememberedText(remembered))),
    }
  if (taken.kind === 'remember') {
    for (let n = 0; n < taken.count; n += 1) {
      nowMs += taken.apartMs
      const fact = newFact(nowMs)
      remembered = remember(remembered, fact[0], fact[2], nowMs)
      facts = [...facts, fact]
    }
    return { remembered, facts, nowMs }
  }
  nowMs += taken.laterMs
  const isOld = ([, atMs]: Fact) => nowMs - atMs > rememberedMs
  for (let n = 0; n < 40; n += 1) {
    remembered = dropExpired(remembered, nowMs)
    facts = facts.slice([0, 1].filter((at) => facts[at] !== undefined && isOld(facts[at])).length)
  }
  return { remembered, facts, nowMs }
}

test('invariant: every version of the set stays unchanged, whatever is added to any other', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ on: fc.nat(), taken: step }), { minLength: 1, maxLength: 40, size: 'max' }),
      endings,
      (branches, tails) => {
        const versions: Version[] = [first]
        let said = 0
        const newFact = (atMs: number): Fact => {
          said += 1
          return [`${said}${tails[said % tails.length]}`, atMs, { says: `${said} of it` }]
        }
        for (const { on, taken } of branches)
          versions.push(after(versions[on % versions.length]!, taken, newFact))
        const everyFact = new Map(versions.flatMap(({ facts }) => facts.map((fact) => [fact[0], fact])))
        for (const { remembered, facts } of versions) {
          assert.deepEqual(JSON.parse(rememberedText(remembered)).entries, facts)
          assert.equal(rememberedCount(remembered), facts.length)
          const known = new Map(facts.map(([id, , value]) => [id, value]))
          for (const id of everyFact.keys()) assert.deepEqual(findRemembered(remembered, id), known.get(id))
        }
      },
    ),
  )
})

test('an old id is refused, however long ago it was compressed', () => {
  let remembered = emptyRemembered<number>()
  for (let n = 0; n < 1_000; n += 1) remembered = remember(remembered, `ord_${n}`, n, n)
  for (const n of [0, 31, 32, 500, 999]) {
    assert.equal(findRemembered(remembered, `ord_${n}`), n)
    assert.throws(() => remember(remembered, `ord_${n}`, n, 2_000), /happened twice/)
  }
})

test('two ids with the same hash are two ids', () => {
  // Collisions of FNV-1a in 32 bits.
  let remembered = emptyRemembered<string>()
  for (const id of ['costarring', 'declinate', ...Array.from({ length: 100 }, (_, n) => `between ${n}`)])
    remembered = remember(remembered, id, `of ${id}`, 1)
  for (const id of ['liquid', 'macallums']) {
    assert.equal(findRemembered(remembered, id), undefined)
    remembered = remember(remembered, id, `of ${id}`, 2)
  }
  for (let n = 0; n < 100; n += 1) remembered = remember(remembered, `after ${n}`, 'x', 3)
  for (const id of ['costarring', 'liquid', 'declinate', 'macallums'])
    assert.equal(findRemembered(remembered, id), `of ${id}`)
})

test('a dropped range is known as dropped', () => {
  let remembered = remember(emptyRemembered<string>(), 'a', 'first', 1_000)
  remembered = remember(remembered, 'b', 'second', 2_000)
  remembered = dropExpired(remembered, 1_001 + rememberedMs)
  assert.equal(findRemembered(remembered, 'a'), undefined)
  assert.equal(findRemembered(remembered, 'b'), 'second')
  assert.equal(remembersSince(remembered, 1_000), false)
  assert.equal(remembersSince(remembered, 1_001), true)
  assert.throws(() => remember(remembered, 'b', 'again', 3_000), /happened twice/)
})

test('a set that drops as much as it adds has a bounded size', () => {
  const halfADay = rememberedMs / 14
  let remembered = emptyRemembered<string>()
  for (let n = 0; n < 5_000; n += 1)
    remembered = remember(dropExpired(remembered, n * halfADay), `ord_${n}`, 'x', n * halfADay)
  assert.ok(rememberedCount(remembered) <= 16)
  assert.ok(remembered.recent.store.facts.length <= 64, `${remembered.recent.store.facts.length} facts`)
})
