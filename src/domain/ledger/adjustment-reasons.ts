/** Why a wallet is adjusted: by an operator, or because the payer's bank took a payment back. */
export const adjustmentReasons = ['correction', 'goodwill', 'chargeback'] as const
export type AdjustmentReason = (typeof adjustmentReasons)[number]

/**
 * Why a customer's credit is adjusted: for the same reasons, or for a `payment` that reached the reseller outside of
 * any gateway.
 */
export const customerAdjustmentReasons = ['payment', ...adjustmentReasons] as const
export type CustomerAdjustmentReason = (typeof customerAdjustmentReasons)[number]
