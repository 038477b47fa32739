import {
  type AdjustmentReason,
  adjustmentReasons,
  type CustomerAdjustmentReason,
  customerAdjustmentReasons,
  isAtGateway,
} from '../../../src/domain/ledger/adjustment-reasons.ts'
import {
  decideAdjustment,
  decideCapture,
  decideCredit,
  decideDebit,
  decideHold,
  decideRelease,
} from '../../../src/domain/ledger/decide.ts'
import {
  decideCustomerAdjustment,
  decideCustomerCharge,
  decideCustomerCredit,
  decideCustomerRefund,
} from '../../../src/domain/ledger/decide-customer.ts'
import type { LedgerEvent } from '../../../src/domain/ledger/events.ts'
import { type LedgerState, ledgerFold } from '../../../src/domain/ledger/fold.ts'
import type { OrderDetails } from '../../../src/domain/shared/order-terms.ts'
import { isoTime } from '../../../src/kernel/clock.ts'
import type { AccountId, CustomerId, KeyId, OrderId } from '../../../src/kernel/ids.ts'
import { type CapCovers, capCoverages, type KeyCap } from '../../../src/kernel/scopes.ts'
import fc from '../../support/fast-check.ts'

export const account = 'acc_test' as AccountId
export const startMs = Date.parse('2026-11-21T00:00:00.000Z')

export const orderOf = (fields: Partial<OrderDetails> & { readonly amountCents: number }): OrderDetails => ({
  orderId: 'ord_1' as OrderId,
  accountId: account,
  keyId: 'key_1' as KeyId,
  customerId: null,
  kind: 'order',
  productId: 'residential',
  family: 'residential',
  shape: 'gateway_gb',
  delivery: 'lines',
  renewal: 'topup',
  unit: 'GB',
  quantity: 1,
  target: null,
  bytes: 1_000_000_000,
  periodDays: null,
  planId: null,
  proxyIds: [],
  unitPriceCents: fields.amountCents,
  listCents: fields.amountCents,
  currency: 'USD',
  billingType: 'PAYG',
  method: 'wallet',
  catalogDigest: 'digest',
  fingerprint: 'fingerprint',
  createdAt: isoTime(startMs),
  ...fields,
})

/** Commands for a wallet. Ids come from few values, so that repeats are common. */
export type WalletCommand =
  | {
      readonly kind: 'credit'
      readonly source: 'deposit' | 'manual' | 'refund'
      readonly reference: string
      readonly amountMicros: number
    }
  | {
      readonly kind: 'adjust'
      readonly reference: string
      readonly reason: AdjustmentReason
      readonly amountMicros: number
    }
  | {
      readonly kind: 'debit'
      readonly orderId: string
      readonly keyId: string | null
      readonly amountCents: number
      readonly capCents: number | null
      /** Orders, if it is absent. */
      readonly covers?: CapCovers
    }
  | {
      readonly kind: 'hold'
      readonly holdId: string
      readonly amountMicros: number
      readonly keyId?: string
      readonly capCents?: number | null
      readonly covers?: CapCovers
    }
  | { readonly kind: 'capture' | 'release'; readonly holdId: string }
  | {
      readonly kind: 'customer-credit'
      readonly customerId: string
      readonly reference: string
      readonly amountMicros: number
    }
  | {
      readonly kind: 'customer-adjust'
      readonly customerId: string
      readonly reference: string
      readonly reason: CustomerAdjustmentReason
      readonly amountMicros: number
    }
  | {
      readonly kind: 'customer-charge'
      readonly customerId: string
      readonly orderId: string
      readonly keyId: string
      readonly amountCents: number
      readonly costCents: number
      readonly capCents: number | null
      /** Orders, if it is absent. */
      readonly covers?: CapCovers
    }
  | {
      readonly kind: 'customer-refund'
      readonly customerId: string
      readonly reference: string
      readonly amountMicros: number
      readonly costMicros: number
    }

/** A command and how long after the one before it comes. */
export type Step = { readonly afterMs: number; readonly command: WalletCommand }

const id = (prefix: string, count: number) => fc.nat(count - 1).map((n) => `${prefix}_${n}`)

const debitCommand = fc.record({
  kind: fc.constant('debit' as const),
  orderId: id('ord', 60),
  keyId: fc.oneof(fc.constant(null), id('key', 3)),
  amountCents: fc.integer({ min: 1, max: 3_000 }),
  capCents: fc.oneof(fc.constant(null), fc.integer({ min: 0, max: 6_000 })),
  covers: fc.constantFrom(...capCoverages),
})
const holdCommand = fc.record({
  kind: fc.constant('hold' as const),
  holdId: id('hold', 20),
  amountMicros: fc.integer({ min: 1, max: 20_000_000 }),
  keyId: id('key', 3),
  capCents: fc.oneof(fc.constant(null), fc.integer({ min: 0, max: 6_000 })),
  covers: fc.constantFrom(...capCoverages),
})
const endCommand = fc.record({
  kind: fc.constantFrom('capture' as const, 'release' as const),
  holdId: id('hold', 20),
})

export const walletCommand: fc.Arbitrary<WalletCommand> = fc.oneof(
  fc.record({
    kind: fc.constant('credit' as const),
    source: fc.constantFrom('deposit' as const, 'manual' as const, 'refund' as const),
    reference: id('ref', 30),
    amountMicros: fc.integer({ min: 1, max: 90_000_000 }),
  }),
  fc.record({
    kind: fc.constant('adjust' as const),
    reference: id('adj', 20),
    reason: fc.constantFrom<AdjustmentReason>(...adjustmentReasons),
    amountMicros: fc.integer({ min: -60_000_000, max: 30_000_000 }).filter((amount) => amount !== 0),
  }),
  debitCommand,
  holdCommand,
  endCommand,
  fc.record({
    kind: fc.constant('customer-credit' as const),
    customerId: id('cus', 3),
    reference: id('pi', 30),
    amountMicros: fc.integer({ min: 1, max: 90_000_000 }),
  }),
  fc.record({
    kind: fc.constant('customer-adjust' as const),
    customerId: id('cus', 3),
    reference: id('adj', 20),
    reason: fc.constantFrom<CustomerAdjustmentReason>(...customerAdjustmentReasons),
    amountMicros: fc.integer({ min: -60_000_000, max: 30_000_000 }).filter((amount) => amount !== 0),
  }),
  fc.record({
    kind: fc.constant('customer-charge' as const),
    customerId: id('cus', 3),
    orderId: id('ord', 60),
    keyId: id('key', 3),
    amountCents: fc.integer({ min: 0, max: 3_000 }),
    costCents: fc.integer({ min: 0, max: 2_500 }),
    capCents: fc.oneof(fc.constant(null), fc.integer({ min: 0, max: 6_000 })),
    covers: fc.constantFrom(...capCoverages),
  }),
  fc
    .record({
      kind: fc.constant('customer-refund' as const),
      customerId: id('cus', 3),
      reference: id('ref', 30),
      amountMicros: fc.integer({ min: 0, max: 30_000_000 }),
      costMicros: fc.integer({ min: 0, max: 25_000_000 }),
    })
    .filter(({ amountMicros, costMicros }) => amountMicros + costMicros > 0),
)

export const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    afterMs: fc.oneof(
      fc.integer({ min: 0, max: 120_000 }),
      fc.integer({ min: 0, max: 9 * 60 * 60 * 1000 }),
      fc.integer({ min: 24 * 60 * 60 * 1000 - 90_000, max: 24 * 60 * 60 * 1000 + 90_000 }),
      fc.integer({ min: 0, max: 4 * 24 * 60 * 60 * 1000 }),
    ),
    command: walletCommand,
  }),
  { maxLength: 120, size: 'max' },
)

/** Orders and calls that follow each other within minutes, so that most of them count against the same cap. */
export const spendingSteps: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    afterMs: fc.integer({ min: 0, max: 600_000 }),
    command: fc.oneof(debitCommand, holdCommand, endCommand),
  }),
  { maxLength: 120, size: 'max' },
)

/** Holds, payments and reversals without other spending, so that a hold often ends while the account has a debt. */
export const debtSteps: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    afterMs: fc.integer({ min: 0, max: 2 * 24 * 60 * 60 * 1000 }),
    command: fc.oneof(
      walletCommand.filter(({ kind }) => kind !== 'debit' && kind !== 'customer-charge'),
      holdCommand,
      endCommand,
    ),
  }),
  { maxLength: 120, size: 'max' },
)

/** The cap under which a command spends. */
export const capOfCommand = ({
  capCents = null,
  covers = 'orders',
}: {
  readonly capCents?: number | null
  readonly covers?: CapCovers
}): KeyCap | null => (capCents === null ? null : { cents: capCents, covers })

export const decideCommand = (state: LedgerState, command: WalletCommand, nowMs: number) => {
  switch (command.kind) {
    case 'credit': {
      const { source, reference, amountMicros } = command
      return decideCredit(state, {
        source,
        reference,
        gateway: source === 'refund' ? null : source === 'manual' ? 'manual' : 'stripe',
        depositId: source === 'deposit' ? `dep_${reference}` : null,
        orderId: source === 'refund' ? 'ord_1' : null,
        family: source === 'refund' ? 'isp' : null,
        amountMicros,
      })
    }
    case 'adjust': {
      const { reference, reason, amountMicros } = command
      return decideAdjustment(state, {
        reference,
        reason,
        gateway: isAtGateway(reason) ? 'stripe' : null,
        amountMicros,
      })
    }
    case 'debit': {
      const { orderId, keyId, amountCents } = command
      const order = orderOf({ orderId: orderId as OrderId, keyId: keyId as KeyId | null, amountCents })
      return decideDebit(state, { order, cap: capOfCommand(command) }, nowMs)
    }
    case 'hold': {
      const { holdId, amountMicros, keyId = 'key_1' } = command
      const cap = capOfCommand(command)
      return decideHold(
        state,
        { holdId, keyId, capKeyId: keyId, platform: 'tiktok', amountMicros },
        cap?.covers === 'everything' ? { cap, nowMs } : null,
      )
    }
    case 'capture':
      return decideCapture(state, command)
    case 'release':
      return decideRelease(state, command)
    case 'customer-credit': {
      const { customerId, reference, amountMicros } = command
      const depositId = `dep_${reference}`
      return decideCustomerCredit(state, {
        customerId,
        reference,
        gateway: 'btcpay',
        depositId,
        amountMicros,
      })
    }
    case 'customer-adjust': {
      const { kind: _, ...adjustment } = command
      const gateway = isAtGateway(adjustment.reason) ? 'btcpay' : null
      return decideCustomerAdjustment(state, { ...adjustment, gateway })
    }
    case 'customer-charge': {
      const { customerId, orderId, keyId, amountCents, costCents } = command
      const order = {
        ...orderOf({ orderId: orderId as OrderId, keyId: keyId as KeyId, amountCents }),
        customerId: customerId as CustomerId,
        costCents,
      }
      return decideCustomerCharge(state, { order, cap: capOfCommand(command) }, nowMs)
    }
    case 'customer-refund': {
      const { kind: _, ...refund } = command
      return decideCustomerRefund(state, { ...refund, orderId: 'ord_1', family: 'isp' })
    }
    default: {
      const unknown: never = command
      throw new Error(`unknown command ${JSON.stringify(unknown)}`)
    }
  }
}

export type Played = {
  readonly step: Step
  readonly nowMs: number
  readonly before: LedgerState
  readonly decision: ReturnType<typeof decideCommand>
  readonly events: readonly LedgerEvent[]
  readonly after: LedgerState
}

/** Plays the steps on an empty wallet, deciding and folding as the command runner does. */
export const play = (list: readonly Step[]): Played[] => {
  let state = ledgerFold.initial
  let nowMs = startMs
  let revision = -1
  return list.map((step) => {
    nowMs += step.afterMs
    const before = state
    const decision = decideCommand(before, step.command, nowMs)
    const events: readonly LedgerEvent[] = decision.outcome === 'decided' ? decision.events : []
    for (const event of events) {
      revision += 1
      state = ledgerFold.evolve(state, { ...event, revision, recordedAtMs: nowMs })
    }
    return { step, nowMs, before, decision, events, after: state }
  })
}

/** The state after events that happened one a second from `startMs` on. */
export const ledgerAfter = (...events: LedgerEvent[]): LedgerState =>
  events.reduce(
    (state, event, revision) =>
      ledgerFold.evolve(state, { ...event, revision, recordedAtMs: startMs + revision * 1000 }),
    ledgerFold.initial,
  )

export const credited = (amountMicros: number, availableAfterMicros = amountMicros): LedgerEvent => ({
  type: 'WalletCredited',
  data: {
    source: 'manual',
    reference: `seed ${availableAfterMicros}`,
    gateway: 'manual',
    depositId: null,
    orderId: null,
    family: null,
    amountMicros,
    receivableMicros: 0,
    availableAfterMicros,
  },
})
