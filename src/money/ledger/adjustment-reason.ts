/** Why money of a wallet is adjusted: by an operator's word, or because a payer's bank took a payment back. */
export type AdjustmentReason = 'correction' | 'goodwill' | 'chargeback'

/** Why a customer's credit is: for the same reasons, or a `payment` that reached the reseller outside of any gateway. */
export type CustomerAdjustmentReason = 'payment' | AdjustmentReason
