import type { CommandDecision } from '../../kernel/decider.ts'
import { sealStream } from '../../kernel/streams.ts'
import type { LogSealed, SealKeyRotated, SealState } from './events.ts'

/** The last seal that the digest was chained on from, as the one who seals knows it. */
export type SealProgress = { readonly throughOrdinal: number; readonly digest: string }

export type SealAnswer =
  | { readonly outcome: 'sealed'; readonly seal: LogSealed['data'] }
  /** Somebody sealed meanwhile: look again. */
  | { readonly outcome: 'moved'; readonly last: LogSealed['data'] }
  /** The log was sealed under another key since: this one signs nothing more. */
  | { readonly outcome: 'key_retired'; readonly publicKey: string }

export type RotateAnswer =
  | { readonly outcome: 'rotated' }
  /** The new key signs already. */
  | { readonly outcome: 'already_rotated' }
  | { readonly outcome: 'moved' }
  | { readonly outcome: 'key_retired'; readonly publicKey: string }

/** One seal after another, each by the key that signs at its time. */
export const decideSeal = (
  state: SealState,
  seal: LogSealed['data'],
  from: SealProgress,
): CommandDecision<SealAnswer> => {
  if (state.publicKey !== null && state.publicKey !== seal.publicKey)
    return { appends: [], answer: { outcome: 'key_retired', publicKey: state.publicKey } }
  if (state.last !== null && state.last.throughOrdinal !== from.throughOrdinal)
    return { appends: [], answer: { outcome: 'moved', last: state.last } }
  const event: LogSealed = { type: 'LogSealed', data: seal }
  return { appends: [{ stream: sealStream, events: [event] }], answer: { outcome: 'sealed', seal } }
}

/**
 * The key that signs hands over to another one, which signs what was sealed last as well: a verifier who pins the new
 * key finds a seal of it at once.
 */
export const decideRotation = (
  state: SealState,
  rotation: SealKeyRotated['data'],
  countersigned: LogSealed['data'] | null,
): CommandDecision<RotateAnswer> => {
  if (state.publicKey === rotation.publicKey) return { appends: [], answer: { outcome: 'already_rotated' } }
  if (state.publicKey !== null && state.publicKey !== rotation.previousPublicKey)
    return { appends: [], answer: { outcome: 'key_retired', publicKey: state.publicKey } }
  if ((state.last?.throughOrdinal ?? 0) !== rotation.sealedOrdinal)
    return { appends: [], answer: { outcome: 'moved' } }
  const rotated: SealKeyRotated = { type: 'SealKeyRotated', data: rotation }
  const seals: readonly LogSealed[] =
    countersigned === null ? [] : [{ type: 'LogSealed', data: countersigned }]
  return { appends: [{ stream: sealStream, events: [rotated, ...seals] }], answer: { outcome: 'rotated' } }
}
