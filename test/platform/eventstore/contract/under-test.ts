import type { TestContext } from 'node:test'
import type { EventLog } from '../../../../src/platform/eventstore/port.ts'

export type LogTraits = {
  /** Positions are 1, 2, 3 … without gaps, and the store belongs to the test alone. */
  readonly gapless: boolean
  /** An item of `appendAll` lands whole or not at all; otherwise a prefix of its appends may remain. */
  readonly atomicItems: boolean
}

export type LogUnderTest = {
  readonly log: EventLog
  /** Another log over the same store, with separate connections where the client allows it. */
  reopen(): Promise<EventLog>
  /** Breaks every connection to the store once, as a restart of the server would; null where a test cannot do it. */
  readonly interrupt: (() => Promise<void>) | null
  /** How another process opens this store: `module` (a file URL) exports `openLog(argument): Promise<EventLog>`. */
  readonly elsewhere: { readonly module: string; readonly argument: string }
}

export type OpenLog = (t: TestContext) => Promise<LogUnderTest>
