/** Why money of a wallet is adjusted: by an operator's word, or because a payer's bank took a payment back. */
export const adjustmentReasons = ['correction', 'goodwill', 'chargeback'] as const
export type AdjustmentReason = (typeof adjustmentReasons)[number]

/** Why a customer's credit is: for the same reasons, or a `payment` that reached the reseller outside of any gateway. */
export const customerAdjustmentReasons = ['payment', ...adjustmentReasons] as const
export type CustomerAdjustmentReason = (typeof customerAdjustmentReasons)[number]
