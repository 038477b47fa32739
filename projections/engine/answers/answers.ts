import { JsonBytes } from '../../../src/platform/http/json-bytes.ts'
import type { Scope } from '../../../src/terms/holder.ts'
import type { Reads } from '../reads.ts'
import type { KeptStore, Made, Standing } from './store.ts'
import type { TouchesOf } from './touches.ts'

/** What an answer is about and what it is made of. */
export type Asked = {
  readonly scope: Scope
  /** The operation, and everything of the request and its caller that the answer depends on. */
  readonly as: string
  /** `X-Farebox-Position`, or null. */
  readonly after: number | null
  /** Tables of the hot group whose rows are of no account and that the answer is made of. */
  readonly tables?: readonly string[]
  /** The answer shows what is not in the log: labels, counted traffic, resellers' ids of customers, read marks. */
  readonly outside?: true
  /** The answer shows no money of the account, so what other processes wrote is not waited for (`settledHere`). */
  readonly here?: true
  /** What else it is made of, kept while it is the same object: the catalogue. */
  readonly with?: object
}

/**
 * Answers about an account, kept while nothing they are made of changes (docs/decisions/0038-reads.md). A kept answer is
 * what reading again would give: it is used only after the same waiting for the account's own writes, while no row of
 * the account was written by the projections, nothing of it outside the log changed in any process, and the clock has
 * not passed an instant that changes it.
 */
export type KeptAnswers = {
  /** @throws what `Reads.settled` throws, and what `read` throws */
  answer<Body>(asked: Asked, read: () => Promise<Made<Body>>): Promise<JsonBytes<Body>>
}

export const createKeptAnswers = (deps: {
  readonly store: KeptStore
  readonly reads: Pick<Reads, 'settled' | 'settledHere'>
  /** `Progress.versionOf` of the hot group. */
  readonly versionOf: (subjects: readonly string[]) => number | null
  readonly touchesOf: TouchesOf
}): KeptAnswers => {
  const { store, reads, versionOf, touchesOf } = deps

  /** Null where this process does not see every change. */
  const standingOf = async (asked: Asked): Promise<Standing | null> => {
    const { after, tables, outside, here } = asked
    const { accountId: account } = asked.scope
    const [touches] = await Promise.all([
      outside ? touchesOf(account) : 0,
      here ? reads.settledHere(account, after ?? 0) : reads.settled(account, after ?? 0),
    ])
    const version = versionOf(tables === undefined ? [account] : [account, ...tables])
    return version === null ? null : { version, touches, with: asked.with }
  }

  return {
    answer: async (asked, read) => {
      const standing = await standingOf(asked)
      if (standing === null) return JsonBytes.of((await read()).body)
      const { accountId, customerId } = asked.scope
      return store.answer(`${accountId} ${customerId} ${asked.as}`, standing, read)
    },
  }
}
