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
  }
}

/** The notice-read table as queries see it. */
export type ReadMarkDatabase = {
  'vault.notice_reads': {
    readonly account_id: string
    readonly notice_id: string
    readonly read_at: string
  }
}
