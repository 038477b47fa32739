/** The label table as queries see it. */
export type LabelDatabase = {
  'vault.labels': { readonly resource_id: string; readonly account_id: string; readonly label: string }
}
