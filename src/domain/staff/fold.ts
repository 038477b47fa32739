import { Set as ImmutableSet } from 'immutable'
import type { Fold } from '../../kernel/decider.ts'
import { consoleStream } from '../../kernel/streams.ts'
import type { PersonEvent, StaffRole } from './events.ts'

export type PersonState = {
  readonly roles: ImmutableSet<StaffRole>
  /** Ids of the passkeys that open the console. */
  readonly passkeys: ImmutableSet<string>
}

const evolve: Fold<PersonState, PersonEvent>['evolve'] = (state, event) => {
  switch (event.type) {
    case 'StaffRoleGranted':
      return { ...state, roles: state.roles.add(event.data.role) }
    case 'StaffRoleRevoked':
      return { ...state, roles: state.roles.delete(event.data.role) }
    case 'PasskeyAdded':
      return { ...state, passkeys: state.passkeys.add(event.data.passkeyId) }
    case 'PasskeyRemoved':
      return { ...state, passkeys: state.passkeys.delete(event.data.passkeyId) }
    case 'SignInLinkMade':
    case 'SignedIn':
    case 'SessionEnded':
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
  initial: { roles: ImmutableSet(), passkeys: ImmutableSet() },
  evolve,
}

/** The stream of a person, as a command names it. */
export const personRef = (subjectId: string) => ({ stream: consoleStream(subjectId), fold: personFold })
