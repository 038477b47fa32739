/** The label table as queries see it. */
export type LabelDatabase = {
  'vault.labels': { readonly resource_id: string; readonly account_id: string; readonly label: string }
}

/** The counters as queries see them. */
export type TrafficDatabase = {
  'work.traffic': { readonly plan_id: string; readonly used_bytes: number }
}

/** The refused renewals as queries see them. */
export type RenewalDatabase = {
  'work.renewals': {
    readonly subscription_id: string
    readonly period_start: string
    readonly reason: string
  }
}

/** The pay pages of deposits as queries see them. */
export type DepositPagesDatabase = {
  'vault.deposit_pages': {
    readonly deposit_id: string
    readonly return_url: string
    readonly pay_url: string | null
    readonly signature: Buffer | null
  }
}

/** The addresses of a deposit as they were read: not to be shown before their signature was checked. */
export type StoredPages = {
  readonly deposit_id: string | null
  /** Who pays the deposit. */
  readonly account_id: string
  readonly customer_id: string | null
  readonly return_url: string | null
  readonly pay_url: string | null
  readonly pages_signature: Buffer | null
}

/** Opens the pay page of a row; null where it has none, or somebody else than the service wrote it. */
export type PayUrlOf = (row: StoredPages) => string | null

/** The notice-read table as queries see it. */
export type ReadMarkDatabase = {
  'vault.notice_reads': {
    readonly account_id: string
    readonly notice_id: string
    readonly read_at: string
  }
}
