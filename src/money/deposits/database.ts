/** The pay pages of deposits as queries see them. */
export type DepositPagesDatabase = {
  'vault.deposit_pages': {
    readonly deposit_id: string
    readonly return_url: string
    readonly pay_url: string | null
  }
}
