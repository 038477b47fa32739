/**
 * A payment provider and the credits owed for its messages, as simply as possible, without code of the
 * program. The decisions of deposits are compared with it.
 */

export type Paid = { readonly id: string; readonly micros: number }
export type Status = 'open' | 'processing' | 'paid' | 'expired' | 'failed'
/** The provider's answer to a poll. */
export type Said = { readonly status: Status; readonly payments: readonly Paid[] }

export type Deed =
  | { readonly kind: 'pay'; readonly micros: number }
  | { readonly kind: 'process' | 'expire' | 'fail' | 'settle' }

const isOver = (status: Status): boolean => status === 'paid' || status === 'expired' || status === 'failed'

/**
 * The provider's answer after an action, given all earlier ones: late money appears next to a closed invoice.
 */
export const said = (deeds: readonly Deed[], invoiceId: string, wholeMicros: number): Said => {
  let status: Status = 'open'
  const payments: Paid[] = []
  for (const deed of deeds) {
    if (deed.kind === 'pay') payments.push({ id: `${invoiceId}-${payments.length}`, micros: deed.micros })
    else if (isOver(status)) continue
    else if (deed.kind === 'process') status = 'processing'
    else if (deed.kind === 'expire') status = 'expired'
    else if (deed.kind === 'fail') status = 'failed'
    // By hand of its owner, whatever was paid.
    else status = 'paid'
    const sum = payments.reduce((total, { micros }) => total + micros, 0)
    if (sum >= wholeMicros && !isOver(status)) status = 'paid'
  }
  return { status, payments }
}

/** How a deposit must read after all messages of the provider (docs/reference/api.md, "Deposits"). */
export const endOf = (
  { status, payments }: Said,
  wholeMicros: number,
  abandoned: boolean,
): readonly string[] => {
  const micros = payments.reduce((total, payment) => total + payment.micros, 0)
  if (micros >= wholeMicros) return ['paid']
  const over = abandoned || isOver(status)
  if (micros > 0) return over ? ['partially_paid'] : ['awaiting_payment', 'processing']
  if (abandoned) return ['failed', 'expired']
  if (status === 'expired') return ['expired']
  // Marked as paid without any money is no payment.
  if (status === 'failed' || status === 'paid') return ['failed']
  return status === 'processing' ? ['processing'] : ['awaiting_payment', 'processing']
}
