import type { Actor } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { Caller } from '../../platform/http/auth.ts'
import type { AccountVisit } from '../../platform/ui/page.ts'

/** The payer of a console session: the wallet of the visitor's own account, without a key. */
export const payerOf = ({ account, cause }: AccountVisit): Payer => {
  const { actor } = cause
  if (actor.kind === 'key') throw new Error('a person has no key')
  const { accountId, reseller } = account
  return { accountId, reseller, keyId: null, actor }
}

/** A key that pays from its account's wallet, under its own daily cap. */
type KeyPayer = Pick<Caller, 'accountId' | 'reseller' | 'keyId' | 'capKeyId' | 'dailyCapCents'>

/**
 * A payer without a key: a person in the console, or the service for an order that such a person started. No key's cap
 * applies, and none is used up.
 */
type KeylessPayer = {
  readonly accountId: AccountId
  readonly reseller: boolean
  readonly keyId: null
  readonly actor: Exclude<Actor, { readonly kind: 'key' }>
}

/** The account whose wallet pays, and its limits (docs/decisions/0063-orders-without-a-key.md). */
export type Payer = KeyPayer | KeylessPayer

/** Whole cents in any 24 hours; null for no cap. */
export const capCentsOf = (payer: Payer): number | null => (payer.keyId === null ? null : payer.dailyCapCents)

/**
 * The actor in the events of this payer.
 * @throws Error for a session of another account: it may view the account, but never pay from its wallet
 */
export const actorOfPayer = (payer: Payer): Actor => {
  const { accountId, keyId } = payer
  if (keyId !== null) return { kind: 'key', accountId, keyId }
  const { actor } = payer
  if (actor.kind === 'session' && actor.subjectId !== accountId)
    throw new Error(`session ${actor.sessionId} is of ${actor.subjectId} and cannot pay for ${accountId}`)
  return actor
}
