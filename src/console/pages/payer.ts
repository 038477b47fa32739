import type { Payer } from '../../market/orders/payer.ts'
import type { AccountVisit } from './page.ts'

/** Whoever is signed in pays from the wallet of their own account, with no key. */
export const payerOf = ({ account, cause }: AccountVisit): Payer => {
  const { actor } = cause
  if (actor.kind === 'key') throw new Error('a person has no key')
  const { accountId, reseller } = account
  return { accountId, reseller, keyId: null, actor }
}
