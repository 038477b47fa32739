import { Map as ImmutableMap, Set as ImmutableSet } from 'immutable'
import type { Fold } from '../../kernel/decider.ts'
import { consoleStream } from '../../kernel/streams.ts'
import type { PersonEvent } from './events.ts'
import { lifetimeOf } from './lifetimes.ts'
import type { StaffRole } from './roles.ts'

export type PersonState = {
  readonly roles: ImmutableSet<StaffRole>
  /**
   * The passkeys for the console, each with the commitment to its row in the vault. Null for a passkey of an older
   * release, which gives no access.
   */
  readonly passkeys: ImmutableMap<string, string | null>
  /** Commits to the e-mail of a member of the staff; null for an account, and for a member of an older release. */
  readonly emailCommitment: string | null
  /** Sessions that were not ended, each with the time when it expires, milliseconds since the epoch. */
  readonly sessions: ImmutableMap<string, number>
}

const evolve: Fold<PersonState, PersonEvent>['evolve'] = (state, event) => {
  switch (event.type) {
    case 'StaffRoleGranted': {
      const { role, emailCommitment = null } = event.data
      return {
        ...state,
        roles: state.roles.add(role),
        emailCommitment: state.emailCommitment ?? emailCommitment,
      }
    }
    case 'StaffRoleRevoked':
      return { ...state, roles: state.roles.delete(event.data.role) }
    case 'PasskeyAdded': {
      const { passkeyId, commitment = null } = event.data
      return { ...state, passkeys: state.passkeys.set(passkeyId, commitment) }
    }
    case 'PasskeyRemoved':
      return { ...state, passkeys: state.passkeys.delete(event.data.passkeyId) }
    case 'SignedIn': {
      const { sessionId, subjectId } = event.data
      const atMs = event.recordedAtMs
      return {
        ...state,
        // Expired sessions are dropped, so that the map stays small.
        sessions: state.sessions
          .filter((endsAtMs) => endsAtMs > atMs)
          .set(sessionId, atMs + lifetimeOf(subjectId).wholeMs),
      }
    }
    case 'SessionEnded':
      return { ...state, sessions: state.sessions.delete(event.data.sessionId) }
    case 'PersonCommitmentsAdopted': {
      const { emailCommitment, passkeys } = event.data
      return {
        ...state,
        emailCommitment: state.emailCommitment ?? emailCommitment,
        passkeys: passkeys.reduce(
          (updated, { passkeyId, commitment }) =>
            updated.get(passkeyId) === null ? updated.set(passkeyId, commitment) : updated,
          state.passkeys,
        ),
      }
    }
    case 'SignInLinkMade':
    case 'ActConfirmed':
    case 'AccountViewed':
    case 'WorkRetryAsked':
      return state
    default: {
      const unknown: never = event
      throw new Error(`unknown event of a person ${JSON.stringify(unknown)}`)
    }
  }
}

export const personFold: Fold<PersonState, PersonEvent> = {
  name: 'person',
  version: 1,
  initial: {
    roles: ImmutableSet(),
    passkeys: ImmutableMap(),
    emailCommitment: null,
    sessions: ImmutableMap(),
  },
  evolve,
}

/** The stream reference of a person for a command. */
export const personRef = (subjectId: string) => ({ stream: consoleStream(subjectId), fold: personFold })
