/** What a word in the target of a call makes the stand-in do: `https://www.tiktok.com/@missing-7` is not there. */
export const triggers = {
  missing: 'answers 404 not_found, charges nothing',
  'fb-missing': 'answers 404 with success true and data.accountDoesNotExist',
  private: 'answers 200 with account_status private, charged',
  gated: 'answers 200 with account_status age-restricted, charged',
  agegate: 'answers 403 forbidden about the target',
  refused: 'answers 200 with success false; a number behind it is the errorStatus',
  flaky: 'answers 503 as often as the number behind it says, then as usual',
  slow: 'waits as many milliseconds as the number behind it says',
  reset: 'breaks the connection before an answer',
  cut: 'breaks the connection in the middle of an answer',
  html: 'answers 200 with a page',
  huge: 'answers 200 with a body that does not end before 64 MiB',
  throttle: 'answers 429; a number behind it is Retry-After in seconds, else 1',
  empty: 'answers 200 with empty lists',
  unsaid: 'answers 200 with none of the fields of the row',
  speechless: 'answers 200 without a transcript, charges nothing',
  withdrawn: 'answers 404 as for a path that there is not',
  status: 'answers with the status behind it',
  invalid: 'answers 400',
  nokey: 'answers 401',
  barred: 'answers 403 about the account of the caller',
  broke: 'answers 402',
  dear: 'answers as usual and charges 40 credits',
} as const

export type TriggerName = keyof typeof triggers
export type Trigger = { readonly name: TriggerName; readonly number: number | null; readonly target: string }

/** A word at the beginning of a text, or of a part of a link. */
const form = /(?:^|[/@=#.])([a-z]{1,3}-)?([a-z]{1,12})-(?:(\d{1,6})-)?/g

const isTrigger = (name: string): name is TriggerName => Object.hasOwn(triggers, name)

/** The trigger in the texts of a call, the first there is. */
export const triggerOf = (values: readonly string[]): Trigger | null => {
  for (const target of values)
    for (const [, before = '', word = '', number] of target.matchAll(form)) {
      const name = `${before}${word}`
      if (isTrigger(name)) return { name, number: number === undefined ? null : Number(number), target }
    }
  return null
}
