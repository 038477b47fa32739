import { z } from 'zod'

/** How the stand-ins misbehave: `PUT /_sandbox/switches`. Everything is off at the start. */
export const SwitchesShape = z
  .strictObject({
    /** The share of callbacks that never leave, from 0 to 1. */
    lost: z.number().min(0).max(1),
    /** How many more times each callback is sent. */
    repeats: z.int().min(0).max(20),
    /** Each waits a random part of this, so that they overtake each other. */
    reorderMs: z.int().min(0).max(60_000),
    /** Each waits this long. */
    slowMs: z.int().min(0).max(60_000),
    /** Before each goes one that is not signed and one that is signed with another secret. */
    forged: z.boolean(),
    /** After each goes one, rightly signed, that states another amount and currency. */
    lying: z.boolean(),
    /** The API answers 503. */
    down: z.boolean(),
    /** The API answers after this. */
    apiSlowMs: z.int().min(0).max(60_000),
    /** The connection of an API call breaks: before it is done, or when it was done and before it is answered. */
    apiCut: z.enum(['never', 'before', 'after']),
    /** The share of API calls that are cut, from 0 to 1. */
    apiCutShare: z.number().min(0).max(1),
    /** The faults of the API are this provider's alone; null: of all. */
    apiOf: z.enum(['stripe', 'btcpay', 'nowpayments']).nullable(),
  })
  .partial()

type Given = z.infer<typeof SwitchesShape>
export type Switches = { readonly [Name in keyof Given]-?: Exclude<Given[Name], undefined> }

export const calm: Switches = {
  lost: 0,
  repeats: 0,
  reorderMs: 0,
  slowMs: 0,
  forged: false,
  lying: false,
  down: false,
  apiSlowMs: 0,
  apiCut: 'never',
  apiCutShare: 1,
  apiOf: null,
}
