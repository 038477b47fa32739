import type { CommandDecision } from '../../kernel/decider.ts'
import { sealStream } from '../../kernel/streams.ts'
import type { LogSealed, SealKeyRotated, SealState } from './events.ts'

/** The last seal from which the sealing process continued the digest. */
export type SealProgress = { readonly throughOrdinal: number; readonly digest: string }

export type SealAnswer =
  | { readonly outcome: 'sealed'; readonly seal: LogSealed['data'] }
  /** Another process sealed meanwhile. Read the state again. */
  | { readonly outcome: 'moved'; readonly last: LogSealed['data'] }
  /** The log was sealed under another key since. The caller's key must not sign any more. */
  | { readonly outcome: 'key_retired'; readonly publicKey: string }

export type RotateAnswer =
  | { readonly outcome: 'rotated' }
  /** The new key is already in use. */
  | { readonly outcome: 'already_rotated' }
  | { readonly outcome: 'moved' }
  | { readonly outcome: 'key_retired'; readonly publicKey: string }

/** Appends a seal if it follows the last one and its key is the current key. */
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
 * Rotates the key. The current key signs the new key, and the new key signs the last seal again, so that a verifier
 * that pins the new key finds a seal of it at once.
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
