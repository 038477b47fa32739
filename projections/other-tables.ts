/** The label table for queries. */
export type LabelDatabase = {
  'vault.labels': { readonly resource_id: string; readonly account_id: string; readonly label: string }
}

/** The traffic counters for queries. */
export type TrafficDatabase = {
  'work.traffic': { readonly plan_id: string; readonly used_bytes: number }
}

/** The rejected renewals for queries. */
export type RenewalDatabase = {
  'work.renewals': {
    readonly subscription_id: string
    readonly period_start: string
    readonly reason: string
  }
}

/** The pay pages of deposits for queries. */
export type DepositPagesDatabase = {
  'vault.deposit_pages': {
    readonly deposit_id: string
    readonly return_url: string
    readonly pay_url: string | null
    readonly signature: Buffer | null
  }
}

/** The stored addresses of a deposit. Do not show them before their signature is checked. */
export type StoredPages = {
  readonly deposit_id: string | null
  /** The account that pays the deposit. */
  readonly account_id: string
  readonly customer_id: string | null
  readonly return_url: string | null
  readonly pay_url: string | null
  readonly pages_signature: Buffer | null
}

/** Returns the pay page of a row. Null if there is none, or if the row was not written by the service. */
export type PayUrlOf = (row: StoredPages) => string | null

/** The notice-read table for queries. */
export type ReadMarkDatabase = {
  'vault.notice_reads': {
    readonly account_id: string
    readonly notice_id: string
    readonly read_at: string
  }
}
