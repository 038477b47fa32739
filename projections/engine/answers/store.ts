import { LRUCache } from 'lru-cache'
import type { Clock } from '../../../src/kernel/clock.ts'
import { JsonBytes } from '../../../src/platform/http/json-bytes.ts'

/** What an answer stands on; it is sent again only while all of it is the same. */
export type Standing = {
  readonly version: number
  /** Of the group of read tables, where the version is a position: tables that were made anew say something else there. */
  readonly epoch?: number
  readonly touches: number
  readonly with?: object | undefined
}

export type Made<Body> = {
  readonly body: Body
  /** Until when the clock alone does not change it, milliseconds since the epoch; left out: for ever. */
  readonly untilMs?: number
  /** The answer may change by something that nothing tells of, so it is kept for no later request. */
  readonly fleeting?: boolean
}

/** Answers as they were sent, bounded by their bytes and those of their keys; the one that was not asked for longest goes first. */
export type KeptStore = {
  /**
   * The answer kept under the key, or the one that `read` makes; requests for the same one share one reading.
   * @throws what `read` throws
   */
  answer<Body>(key: string, standing: Standing, read: () => Promise<Made<Body>>): Promise<JsonBytes<Body>>
}

type Kept = Standing & {
  readonly json: JsonBytes<unknown>
  readonly fromMs: number
  readonly untilMs: number
}
type Reading = Standing & { readonly made: Promise<Kept> }

const defaultMaxBytes = 32 * 1024 * 1024
/** Beside the bytes of an answer and of its key: what a map holds of it. */
const entryBytes = 500
/** A longer key holds a query that nobody asks for twice: its answer is made each time. */
const maxKeyLength = 512
/** A key may hold characters outside Latin-1, which take two bytes each. */
const bytesPerChar = 2

const same = (a: Standing, b: Standing): boolean =>
  a.version === b.version && a.epoch === b.epoch && a.touches === b.touches && a.with === b.with

export const createKeptStore = (deps: {
  readonly clock: Clock
  /** Default 32 MiB. */
  readonly maxBytes?: number
}): KeptStore => {
  const { clock, maxBytes = defaultMaxBytes } = deps
  const kept = new LRUCache<string, Kept>({
    maxSize: maxBytes,
    sizeCalculation: ({ json }, key) => json.bytes.length + bytesPerChar * key.length + entryBytes,
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
    if (!fleeting && key.length <= maxKeyLength) kept.set(key, { ...made, json: made.json.unpooled() })
    return made
  }

  return {
    answer: async <Body>(
      key: string,
      standing: Standing,
      read: () => Promise<Made<Body>>,
    ): Promise<JsonBytes<Body>> => {
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
