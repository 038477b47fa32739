import { readFileSync } from 'node:fs'

/**
 * A reader of the ledger that uses only the event dictionary and the `jsonl` export: the dictionary lists the
 * events that move money, with accounts and signs. `test/architecture` checks that it imports nothing of
 * `src/`.
 */

// biome-ignore lint/suspicious/noExplicitAny: JSON, read by its documented names
type Json = any

const at = (facts: Json, path: string): Json => path.split('.').reduce((value, name) => value?.[name], facts)

const filled = (form: string, facts: Json, owner: string): string =>
  form.replaceAll(/\{([\w.]+)\}/g, (_, name: string) => {
    const value = name === 'owner' ? owner : at(facts, name)
    if (typeof value !== 'string') throw new Error(`${form} needs ${name}`)
    return value
  })

export type Leg = { readonly book: string; readonly account: string; readonly debitMicros: bigint }

/** The legs of one event, those of 0 left out. */
export const legsOf = (
  dictionary: Json,
  { type, facts, owner, reseller }: { type: string; facts: Json; owner: string; reseller: boolean },
): readonly Leg[] => {
  const entry = dictionary.events[type]
  if (entry === undefined) throw new Error(`the dictionary has no ${type}`)
  return (entry.books ?? []).flatMap(({ book, account, debit, when = {} }: Json) => {
    if (book === 'reseller' && !reseller) return []
    const counts = Object.entries(when).every(([field, values]) =>
      (values as string[]).includes(at(facts, field)),
    )
    if (!counts) return []
    const debitMicros = Object.entries(debit).reduce(
      (sum, [field, times]) => sum + BigInt(times as number) * BigInt(at(facts, field) ?? 0),
      0n,
    )
    if (debitMicros === 0n) return []
    return [
      {
        book: filled(dictionary.books[book], facts, owner),
        account: filled(account, facts, owner),
        debitMicros,
      },
    ]
  })
}

/** Micro-dollars by `{book}|{account}`, above zero a debit balance. */
export const readByDictionary = (dictionary: Json, path: string): ReadonlyMap<string, bigint> => {
  const balances = new Map<string, bigint>()
  const resellers = new Set<string>()
  const { owner: ownerIn, reseller_when: says } = dictionary.books
  const prefix = ownerIn.stream.slice(0, ownerIn.stream.indexOf('{'))
  for (const line of readFileSync(path, 'utf8').trimEnd().split('\n').slice(1, -1)) {
    const { stream, type, data } = JSON.parse(line)
    const facts = JSON.parse(data)
    if (type === says.event && facts[says.is] === true) resellers.add(facts[says.account])
    if (!dictionary.events[type]?.books) continue
    const owner = stream.slice(prefix.length)
    for (const leg of legsOf(dictionary, { type, facts, owner, reseller: resellers.has(owner) })) {
      const key = `${leg.book}|${leg.account}`
      balances.set(key, (balances.get(key) ?? 0n) + leg.debitMicros)
    }
  }
  return balances
}
