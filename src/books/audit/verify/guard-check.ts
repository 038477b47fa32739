import type pg from 'pg'
import type { Findings } from './finding.ts'
import made from './guards.json' with { type: 'json' }
import { type Guards, readGuards } from './guards.ts'

/** What a fresh database has once it was migrated; test/audit/guards.test.ts makes it and holds it against one. */
export const madeGuards: Guards = made

type Difference = {
  readonly object: string
  /** Null: the whole object is missing, or nobody made it. */
  readonly fact: string | null
  /** Null: there is to be none. */
  readonly expected: string | null
  /** Null: there is none. */
  readonly found: string | null
}

/** Of texts of many lines, the first that differs; `-` where one of the two has no such line. */
const nearest = (expected: string, found: string): Pick<Difference, 'expected' | 'found'> => {
  const [one, other] = [expected.split('\n'), found.split('\n')]
  if (one.length === 1 && other.length === 1) return { expected, found }
  const length = Math.max(one.length, other.length)
  const at = Array.from({ length }, (_, n) => n).find((n) => one[n] !== other[n]) ?? 0
  const line = (lines: readonly string[]): string => `line ${at + 1}: ${lines[at]?.trim() ?? '-'}`
  return { expected: line(one), found: line(other) }
}

/** Of an object that only one of the two has; the whole of a function would be long. */
const inShort = ({ body: _, ...facts }: Readonly<Record<string, string>>): string =>
  Object.entries(facts)
    .map(([fact, value]) => `${fact} ${value}`)
    .join(', ')
    .slice(0, 500)

const sortedKeys = (...of: readonly object[]): string[] => [...new Set(of.flatMap(Object.keys))].sort()

/** Where two databases differ, by object and fact; an object that only one has is one difference. */
export const compareGuards = (expected: Guards, found: Guards): readonly Difference[] =>
  sortedKeys(expected, found).flatMap((object): Difference[] => {
    const [one, other] = [expected[object], found[object]]
    if (one === undefined || other === undefined)
      return [
        { object, fact: null, expected: one ? inShort(one) : null, found: other ? inShort(other) : null },
      ]
    return sortedKeys(one, other).flatMap((fact): Difference[] => {
      const [was, is] = [one[fact] ?? null, other[fact] ?? null]
      if (was === is) return []
      return [
        { object, fact, ...(was !== null && is !== null ? nearest(was, is) : { expected: was, found: is }) },
      ]
    })
  })

const serviceRights = 'rights of <service>'

/** Where the owner serves as well, as with one role for all, nothing is granted to a service. */
const expectedOf = (found: Guards): Guards => {
  if (Object.values(found).some((facts) => serviceRights in facts)) return madeGuards
  return Object.fromEntries(
    Object.entries(madeGuards).map(([object, { [serviceRights]: _, ...facts }]) => [object, facts]),
  )
}

/** The functions, keys, indexes, triggers, owners and rights that keep the log as it is are those that the migrations made. */
export const checkGuards = async (pool: pg.Pool, findings: Findings): Promise<void> => {
  const found = await readGuards(pool)
  for (const difference of compareGuards(expectedOf(found), found))
    findings.add({ where: 'guard', check: 'guards', ...difference })
}
