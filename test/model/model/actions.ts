import type { World } from './state.ts'

/** A request of a customer, and what came back. */
export type Request = {
  readonly account: string
  /** One of the account's keys, by the model's name for it. */
  readonly key: string
  readonly path: string
  readonly body: Readonly<Record<string, unknown>>
  readonly idempotencyKey: string | null
  /** The reseller's own name of the customer that it orders for. */
  readonly customer: string | null
}

/** A requested deposit, and the later payments on its page, in cents. */
export type Deposit = {
  readonly account: string
  readonly key: string
  readonly customer: string | null
  readonly method: 'card' | 'crypto'
  readonly cents: number
  readonly payments: readonly number[]
}

// biome-ignore lint/suspicious/noExplicitAny: the model names its expected fields
type Body = any

export type Answer = {
  readonly status: number
  readonly body: Body
  readonly replayed: boolean
  /** The key that the server generated, if the request had none. */
  readonly madeKey: string | null
}

/** What an operator does at the command line. */
export type Deed =
  | {
      readonly kind: 'refund'
      readonly orderId: string
      readonly cents: number | null
      readonly proxyIds: string[] | null
    }
  | { readonly kind: 'credit'; readonly account: string; readonly cents: number; readonly reference: string }
  | {
      readonly kind: 'adjust'
      readonly account: string
      readonly cents: number
      readonly reference: string
      readonly reason: 'correction' | 'goodwill' | 'chargeback'
    }
  | { readonly kind: 'meter'; readonly planId: string; readonly bytes: number }
  | { readonly kind: 'block' | 'unblock'; readonly account: string }
  | { readonly kind: 'revoke' | 'issue'; readonly account: string }
  | {
      readonly kind: 'customerCredit'
      readonly account: string
      readonly customer: string
      readonly cents: number
      readonly reference: string
    }

export type Printed = { readonly code: number; readonly json: Body }

export type Event =
  | { readonly kind: 'request'; readonly request: Request; readonly answer: Answer }
  | { readonly kind: 'deed'; readonly deed: Deed; readonly printed: Printed }
  /** `read`: the deposit once its payer had paid; null when it was refused. */
  | {
      readonly kind: 'deposit'
      readonly deposit: Deposit
      readonly answer: Pick<Answer, 'status' | 'body'>
      readonly read: Body | null
    }

/** The context of a check: the world at each moment since the request was sent, the present one last. */
export type Moment = { readonly world: World; readonly views: readonly World[]; readonly nowMs: number }

/** The fields of an answer that are not as expected; null when all are. */
export const differing = (actual: Body, expected: Readonly<Record<string, unknown>>): string | null => {
  const wrong = Object.entries(expected).filter(
    ([name, value]) => JSON.stringify(actual?.[name]) !== JSON.stringify(value),
  )
  if (wrong.length === 0) return null
  return wrong
    .map(([name, value]) => `${name} is ${JSON.stringify(actual?.[name])}, not ${JSON.stringify(value)}`)
    .join('; ')
}
