import { LRUCache } from 'lru-cache'
import type { Reads } from '../../projections/engine/reads.ts'
import type { Clock } from '../clock.ts'
import { JsonBytes } from '../http/json-bytes.ts'
import type { AccountId } from '../ids.ts'
import type { TouchesOf } from './touches.ts'

/** What an answer is about and what it is made of. */
export type Asked = {
  readonly account: AccountId
  /** The operation, and everything of the request and its caller that the answer depends on. */
  readonly as: string
  /** `X-Farebox-Position`, or null. */
  readonly after: number | null
  /** Tables of the hot group whose rows are of no account and that the answer is made of. */
  readonly tables?: readonly string[]
  /** Whether it shows labels, counted traffic, ids of customers or read marks, which are not in the log. */
  readonly outside?: true
  /** True where it shows no money of the account: what other processes wrote is not waited for (`settledHere`). */
  readonly here?: true
  /** What else it is made of, kept while it is the same object: the catalogue. */
  readonly with?: object
}

export type Made<Body> = {
  readonly body: Body
  /** Until when the clock alone does not change it, milliseconds since the epoch; left out: for ever. */
  readonly untilMs?: number
  /** True: it may change by something that nobody is told of. */
  readonly fleeting?: boolean
}

/**
 * Answers as they were sent, kept while nothing they are made of changes (docs/decisions/0038-reads.md). A kept answer is
 * what reading again would give: it is used only after the same waiting for the account's own writes, while no row of
 * the account was written by the projections, nothing of it outside the log changed in any process, and the clock has
 * not passed an instant that changes it.
 */
export type KeptAnswers = {
  /**
   * The kept answer, or the one that `read` makes; requests for the same one share one reading.
   * @throws what `Reads.settled` throws, and what `read` throws
   */
  answer<Body>(asked: Asked, read: () => Promise<Made<Body>>): Promise<JsonBytes<Body>>
}

type Standing = { readonly version: number; readonly touches: number; readonly with: object | undefined }
type Kept = Standing & {
  readonly json: JsonBytes<unknown>
  readonly fromMs: number
  readonly untilMs: number
}
type Reading = Standing & { readonly made: Promise<Kept> }

const defaultMaxBytes = 32 * 1024 * 1024
/** Beside the bytes of an answer: its key, and what a map holds of it. */
const entryBytes = 500

const same = (a: Standing, b: Standing): boolean =>
  a.version === b.version && a.touches === b.touches && a.with === b.with

export const createKeptAnswers = (deps: {
  readonly reads: Pick<Reads, 'settled' | 'settledHere'>
  /** `Progress.versionOf` of the hot group. */
  readonly versionOf: (subjects: readonly string[]) => number | null
  readonly touchesOf: TouchesOf
  readonly clock: Clock
  readonly maxBytes?: number
}): KeptAnswers => {
  const { reads, versionOf, touchesOf, clock, maxBytes = defaultMaxBytes } = deps
  const kept = new LRUCache<string, Kept>({
    maxSize: maxBytes,
    sizeCalculation: ({ json }) => json.bytes.length + entryBytes,
  })
  const readings = new Map<string, Reading>()

  const make = async <Body>(
    key: string,
    standing: Standing,
    read: () => Promise<Made<Body>>,
  ): Promise<Kept> => {
    const fromMs = clock()
    const { body, untilMs = Number.POSITIVE_INFINITY, fleeting = false } = await read()
    const made: Kept = { ...standing, json: JsonBytes.of(body), fromMs, untilMs }
    if (!fleeting) kept.set(key, made)
    return made
  }

  const standingOf = async (asked: Asked): Promise<Standing | null> => {
    const { account, after, tables, outside, here } = asked
    const [touches] = await Promise.all([
      outside ? touchesOf(account) : 0,
      here ? reads.settledHere(account, after ?? 0) : reads.settled(account, after ?? 0),
    ])
    const version = versionOf(tables === undefined ? [account] : [account, ...tables])
    return version === null ? null : { version, touches, with: asked.with }
  }

  return {
    answer: async <Body>(asked: Asked, read: () => Promise<Made<Body>>): Promise<JsonBytes<Body>> => {
      const standing = await standingOf(asked)
      if (standing === null) return JsonBytes.of((await read()).body)
      const key = `${asked.account} ${asked.as}`
      const found = kept.get(key)
      const nowMs = clock()
      if (found && same(found, standing) && nowMs >= found.fromMs && nowMs < found.untilMs)
        return found.json as JsonBytes<Body>
      const running = readings.get(key)
      if (running && same(running, standing)) return (await running.made).json as JsonBytes<Body>
      const reading: Reading = { ...standing, made: make(key, standing, read) }
      readings.set(key, reading)
      try {
        return (await reading.made).json as JsonBytes<Body>
      } finally {
        if (readings.get(key) === reading) readings.delete(key)
      }
    },
  }
}
