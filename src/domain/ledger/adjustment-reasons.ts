import { type ReversalReason, reversalReasons } from '../payments/payments.ts'

/** Why an operator adjusts a wallet. A bad debt is written off: it reduces the debt, and never raises the balance. */
const handReasons = ['correction', 'goodwill'] as const

/**
 * Why a wallet is adjusted: by an operator, because the payer's bank took a payment back (`chargeback`), or because the
 * payment was refunded at its provider (`deposit_refund`).
 */
export const adjustmentReasons = [...handReasons, 'bad_debt', ...reversalReasons] as const
export type AdjustmentReason = (typeof adjustmentReasons)[number]

/**
 * The kinds of a credit by hand: a payment that was received elsewhere, such as a bank transfer, or a gift. Only the
 * payment is money: it is a credit of the wallet, and the others are adjustments of it.
 */
export const creditKinds = ['payment', 'goodwill', 'correction'] as const
export type CreditKind = (typeof creditKinds)[number]

/**
 * Why a customer's credit is adjusted: for the same reasons, or for a `payment` that reached the reseller outside of
 * any gateway.
 */
export const customerAdjustmentReasons = ['payment', ...handReasons, ...reversalReasons] as const
export type CustomerAdjustmentReason = (typeof customerAdjustmentReasons)[number]

/** Whether the money moved at a payment gateway: the movement names the gateway, and its shortfall becomes a debt. */
export const isAtGateway = (reason: AdjustmentReason | CustomerAdjustmentReason): reason is ReversalReason =>
  (reversalReasons as readonly string[]).includes(reason)

/** Whether a refund or a dispute takes money from a wallet. Each pauses automatic top-up. */
export const isTakenBack = <
  Movement extends { readonly reason: AdjustmentReason; readonly amountMicros: number },
>(
  movement: Movement,
): movement is Movement & { readonly reason: ReversalReason } =>
  isAtGateway(movement.reason) && movement.amountMicros < 0
