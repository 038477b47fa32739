import type pg from 'pg'
import { z } from 'zod'
import type { Proposal } from '../../domain/ledger/approvals.ts'
import { movementIdOf } from '../../domain/ledger/decide-manual.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { externalIdForm, parseExternalId } from '../../kernel/external-id.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { causeOf } from '../../platform/http/auth.ts'
import { type ApiError, refuse } from '../../platform/http/errors.ts'
import { type Route, route } from '../../platform/http/route.ts'
import { formPage, pageForm, radioField, textField } from '../../platform/ui/form-page.ts'
import { html } from '../../platform/ui/html.ts'
import { type ConsolePage, goTo, resellerPage } from '../../platform/ui/page.ts'
import { dollarText, parseCents } from '../../platform/ui/text.ts'
import { type Customers, findCustomer } from '../accounts/index.ts'
import { isReference, type ManualMovementAnswer, maxCents } from '../wallet/index.ts'
import { resellerOnly } from './customer-routes.ts'
import { moveCredit, movementStates, readMovement } from './move-credit.ts'

/** Why a reseller moves the credit of a customer. Other reasons belong to payment gateways. */
const movedCents = `whole cents from -${maxCents} to ${maxCents}, not 0`

const reasons = ['payment', 'goodwill', 'correction'] as const

type Dependencies = Parameters<typeof moveCredit>[0] & { readonly customers: Pick<Customers, 'idOf'> }

/** The error of a movement that was neither applied nor proposed. */
const errorOf = (
  movementId: string,
  answer: Exclude<ManualMovementAnswer, { readonly outcome: 'applied' | 'proposed' }>,
): ApiError => {
  if (answer.outcome === 'not_proposed') {
    const { proposal } = answer
    if (proposal.status === 'open')
      return refuse(
        'idempotency_conflict',
        `this reference waits for an approval with another amount or reason (${proposal.proposalId}); use another reference`,
      )
    const { decidedBy, decidedAt, note } = decisionOf(proposal.closing)
    return refuse(
      'movement_declined',
      `an operator of the service declined this reference${note === null ? '' : ` ("${note}")`}; use another reference for another movement`,
      { movementId, decidedBy: decidedBy ?? '', decidedAt: decidedAt ?? '', note },
    )
  }
  const { refusal } = answer
  switch (refusal.code) {
    case 'already_applied': {
      const amountCents = microsToCentsFloor(refusal.amountMicros)
      return refusal.isSame
        ? refuse(
            'already_applied',
            `this reference moved ${dollarText(amountCents)} before; use another reference for another movement`,
            { movementId, amountCents },
          )
        : refuse(
            'idempotency_conflict',
            `this reference moved ${dollarText(amountCents)} before, with this or another reason (${movementId}); use another reference`,
          )
    }
    case 'insufficient_balance': {
      const { code: _, balanceCents: creditCents, ...figures } = refusal
      return refuse(
        'customer_credit_insufficient',
        `the customer has ${dollarText(creditCents)}, which is less than ${dollarText(figures.amountCents)}`,
        { creditCents, ...figures },
      )
    }
    case 'unconfirmed':
      return refuse(
        'already_applied',
        `this reference was recorded on ${isoTime(refusal.recordedAtMs)} and never confirmed; use another reference if the customer's credit does not include it`,
        { movementId, amountCents: null },
      )
    case 'invalid_amount':
      return refuse('invalid_amount', 'the credit or the debt of the customer would be too large')
    default:
      return refuse('reseller_forbidden', 'only a reseller has customers')
  }
}

const decisionOf = (closing: NonNullable<Proposal>['closing']) => ({
  decidedBy: closing?.by ?? null,
  decidedAt: closing === null ? null : isoTime(closing.atMs),
  note: closing?.note ?? null,
})

const movementFields = {
  movementId: z.string().meta({ description: 'The id for `GET /api/v1/reseller/movements/{id}`.' }),
  customerId: z.string(),
  reference: z.string(),
  amountCents: z.int(),
  proposalId: z.string().nullable(),
  currency: z.literal('USD'),
}

const Moved = z
  .object({
    ...movementFields,
    status: z.enum(['applied', 'proposed']),
    creditCents: z.int().nullable().meta({
      description: 'The credit after the movement, in whole cents. Null: the movement waits for an approval.',
    }),
  })
  .meta({ id: 'CustomerMovement' })

const shared = {
  movementId: 'dep_0b7c5f3e9a1d48c2b6e4f7a8091d2c3b',
  customerId: 'cus_9f3c2a1b5e6d4f708192a3b4c5d6e7f8',
  reference: 'receipt 1042',
  amountCents: 2500,
  currency: 'USD',
} as const

const example = { ...shared, status: 'applied', creditCents: 3750, proposalId: null } as const

const Movement = z
  .object({
    ...movementFields,
    reason: z.string().meta({
      description: '`payment`, `goodwill` or `correction`; `chargeback` or `deposit_refund` at a gateway.',
    }),
    status: z.enum(movementStates).meta({
      description:
        '`recorded` becomes `applied` within seconds. `withdrawn`: the credit was too low, or the proposal was withdrawn. `expired`: no operator decided in time. A withdrawn or expired movement can be sent again.',
    }),
    decidedBy: z.string().nullable().meta({ description: 'Who declined or withdrew it.' }),
    decidedAt: z.string().nullable().meta({ format: 'date-time' }),
    note: z.string().nullable().meta({ description: 'Why it was declined. Null: no reason was given.' }),
  })
  .meta({ id: 'CustomerMovementState' })

/** A reseller credits and refunds its customers: docs/reference/api.md, "Resellers and finance". */
export const customerMoneyRoutes = (
  dependencies: Dependencies & { readonly log: EventLog; readonly clock: Clock },
): readonly Route[] => [
  route({
    method: 'POST',
    path: '/api/v1/reseller/movements',
    operationId: 'moveCustomerCredit',
    summary: 'Credit or refund a customer',
    description:
      'Moves the credit of the customer in `X-Reseller-Customer-Id`, once per `reference`: above 0 for a payment outside of your gateways or as goodwill, below 0 for money that you returned. Your wallet does not change. An amount above the approval limit of the service is `proposed`, and moves after the approval of an operator. A repeat with the same amount and reason is `already_applied` or `proposed`, with another amount or reason `idempotency_conflict`, and `movement_declined` after an operator declined it.',
    tag: 'Resellers',
    access: 'buy',
    writes: true,
    customer: 'pays',
    body: z.strictObject({
      amount_cents: z
        .int()
        .min(-maxCents)
        .max(maxCents)
        .refine((cents) => cents !== 0, { error: `must be ${movedCents}` })
        .meta({ words: movedCents }),
      reason: z.enum(reasons).default('payment'),
      reference: z
        .string()
        .refine(isReference)
        .meta({
          description: 'Your receipt number or note. Each customer is moved once per reference.',
          words: '1 to 200 printable characters without a space at its ends',
          override: { type: 'string', minLength: 1, maxLength: 200 },
        }),
    }),
    codes: { body: { amount_cents: 'invalid_amount' } },
    examples: { body: { amount_cents: 2500, reason: 'payment', reference: 'receipt 1042' } },
    responses: {
      200: { description: 'The credit of the customer changed.', body: Moved, example },
      202: {
        description: 'The change waits for the approval of an operator.',
        body: Moved,
        example: {
          ...example,
          status: 'proposed',
          creditCents: null,
          proposalId: 'prp_1f0e9d8c7b6a59483726150413223140',
        },
      },
    },
    errors: [
      'reseller_forbidden',
      'invalid_customer_id',
      'customer_credit_insufficient',
      'already_applied',
      'movement_declined',
      'idempotency_conflict',
    ],
    handler: async ({ caller, scope: { accountId, customerId }, customerRef, body, requestId }) => {
      resellerOnly(caller)
      if (customerId === null)
        throw refuse('invalid_customer_id', `name the customer in X-Reseller-Customer-Id: ${externalIdForm}`)
      const { amount_cents: amountCents, reason, reference } = body
      const movement = { customerId, ref: customerRef, amountCents, reason, reference, gateway: null }
      const movementId = movementIdOf({ kind: 'customer', accountId, customerId, reference })
      const answer = await moveCredit(dependencies, accountId, movement, causeOf({ caller, requestId }))
      const moved = { movementId, customerId, reference, amountCents, currency: 'USD' as const }
      switch (answer.outcome) {
        case 'applied':
          return {
            status: 200,
            body: {
              ...moved,
              status: 'applied' as const,
              creditCents: answer.balanceCents,
              proposalId: null,
            },
          }
        case 'proposed': {
          const { proposalId } = answer.proposal
          return {
            status: 202,
            body: { ...moved, status: 'proposed' as const, creditCents: null, proposalId },
          }
        }
        default:
          throw errorOf(movementId, answer)
      }
    },
  }),

  route({
    method: 'GET',
    path: '/api/v1/reseller/movements/{id}',
    operationId: 'getCustomerMovement',
    summary: 'Read a movement of credit',
    description:
      'A movement of the credit of one of your customers, with its state: whether it was applied, waits for an approval, or was declined, by whom and why.',
    tag: 'Resellers',
    access: 'buy',
    writes: false,
    customer: 'limits',
    params: z.object({ id: z.string() }),
    examples: { params: { id: shared.movementId } },
    responses: {
      200: {
        description: 'The movement.',
        body: Movement,
        example: {
          ...shared,
          reason: 'payment',
          status: 'declined',
          proposalId: 'prp_1f0e9d8c7b6a59483726150413223140',
          decidedBy: 'operator:ada',
          decidedAt: '2026-11-21T02:31:00.000Z',
          note: 'The receipt is missing.',
        },
      },
    },
    errors: ['reseller_forbidden', 'not_found'],
    handler: async ({ caller, scope: { accountId, customerId }, params: { id } }) => {
      resellerOnly(caller)
      const found = await readMovement(dependencies.log, accountId, id, dependencies.clock())
      if (found === null || (customerId !== null && found.movement.customerId !== customerId))
        throw refuse('not_found', 'no customer of yours has a movement with this id')
      const { movement, status, proposalId, decision } = found
      const { reference, reason, amountMicros } = movement
      return {
        status: 200,
        body: {
          movementId: id,
          customerId: movement.customerId,
          reference,
          reason,
          amountCents: microsToCentsFloor(amountMicros),
          status,
          proposalId,
          ...decisionOf(decision),
          currency: 'USD' as const,
        },
      }
    },
  }),
]

const kinds = {
  received: { label: 'Payment received', hint: 'In cash or by bank transfer.', reason: 'payment', sign: 1 },
  returned: { label: 'Payment returned', hint: 'You gave money back.', reason: 'payment', sign: -1 },
  goodwill: {
    label: 'Goodwill',
    hint: 'A refund of an order at your own cost, or a gift.',
    reason: 'goodwill',
    sign: 1,
  },
  mistake: { label: 'Correction', hint: 'Takes a wrong credit back.', reason: 'correction', sign: -1 },
} as const

const kindNames = Object.keys(kinds) as (keyof typeof kinds)[]

const path = '/console/reseller/movement'

/** The path of the form with filled fields. */
export const movementPath = (
  fields: Readonly<Partial<Record<'customer' | 'kind' | 'amount' | 'reference', string>>>,
): string => `${path}?${new URLSearchParams(fields)}`

/** The form in which a reseller credits or refunds a customer. */
export const customerMoneyPage = (dependencies: Dependencies & { readonly pool: pg.Pool }): ConsolePage =>
  formPage(resellerPage, {
    path,
    name: 'moveCustomerCredit',
    summary: 'Credits a payment outside of the gateways to a customer, or takes it back',
    confirmed: true,
    form: ({ account: { accountId }, cause, query }) => {
      const { pool, customers } = dependencies
      const filled = (name: string): string => query.get(name)?.trim() ?? ''
      const filledKind = filled('kind')
      return pageForm({
        title: 'Credit or refund a customer',
        intro: html`<p>The credit of a customer pays its orders. Your wallet pays your cost of each order. This form does not change your wallet.</p>`,
        fields: {
          customer: textField({
            label: 'Customer',
            hint: 'Your own id of the customer. A new id creates a customer.',
            maxlength: 128,
            value: filled('customer'),
            parse: (text) => parseExternalId(text) ?? { problem: `Type ${externalIdForm}.` },
          }),
          kind: radioField({
            label: 'Reason',
            choices: kindNames.map((value) => ({ value, ...kinds[value] })),
            value: kindNames.find((name) => name === filledKind) ?? 'received',
            problem: 'Choose a reason.',
          }),
          amount: textField({
            label: 'Amount, USD',
            hint: 'Such as 25 or 25.50.',
            maxlength: 16,
            value: filled('amount'),
            parse: (text) =>
              parseCents(text, maxCents) || {
                problem: `Type dollars above 0 such as 25 or 25.50, at most ${dollarText(maxCents)}.`,
              },
          }),
          reference: textField({
            label: 'Reference',
            hint: 'Your receipt number or note. Each reference is used once per customer.',
            maxlength: 200,
            value: filled('reference'),
            parse: (text) =>
              isReference(text)
                ? text
                : { problem: 'Type a receipt number or a note of at most 200 characters.' },
          }),
        },
        submit: 'Move credit',
        back: '/console/reseller/customers',
        cliEquivalents: [
          `curl $API/reseller/movements -H "X-API-Key: $KEY" -H "X-Reseller-Customer-Id: alice-17" --json '{"amount_cents": 2500, "reason": "payment", "reference": "receipt 1042"}'`,
        ],
        run: async ({ customer: ref, kind, amount: cents, reference }) => {
          const known = ref.startsWith('cus_') ? await findCustomer(pool, accountId, ref) : null
          const { sign, reason } = kinds[kind]
          const movement = {
            customerId: known?.customerId ?? customers.idOf(accountId, ref),
            ref: known === null ? ref : null,
            amountCents: sign * cents,
            reason,
            reference,
            gateway: null,
          }
          const answer = await moveCredit(dependencies, accountId, movement, cause)
          const { customerId } = movement
          const customerPath = `/console/reseller/customers/${customerId}`
          switch (answer.outcome) {
            case 'applied':
              return goTo(
                customerPath,
                `${dollarText(cents)} ${sign > 0 ? 'credited' : 'taken back'}. The credit is ${dollarText(answer.balanceCents)}.`,
              )
            case 'proposed':
              return goTo(
                customerPath,
                'The credit has not changed yet. An operator of the service must approve this amount.',
              )
            default:
              throw errorOf(movementIdOf({ kind: 'customer', accountId, customerId, reference }), answer)
          }
        },
      })
    },
  })
