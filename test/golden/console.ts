import * as people from '../../src/domain/staff/decide.ts'
import { personFold } from '../../src/domain/staff/fold.ts'
import { isoTime } from '../../src/kernel/clock.ts'
import type { AccountId } from '../../src/kernel/ids.ts'
import { consoleStream } from '../../src/kernel/streams.ts'
import type { History } from './history.ts'

/** Actions in the console: a customer who signs in, and staff who view the customer's pages. */
export const makeConsole = ({ fact, state, now }: History, accountId: AccountId): void => {
  const act = (
    subjectId: string,
    decide: (person: ReturnType<typeof personOf>) => people.PersonDecision,
  ): void => {
    const decision = decide(personOf(subjectId))
    if (decision.outcome === 'refused') throw new Error(decision.refusal.code)
    fact(consoleStream(subjectId), ...decision.events)
  }
  const personOf = (subjectId: string) => state(consoleStream(subjectId), personFold)
  const staffId = 'stf_golden'
  const visits = (subjectId: string, method: 'link' | 'passkey'): void => {
    const sessionId = `ses_golden_${method}`
    act(subjectId, (person) => people.decideSignIn(person, { subjectId, sessionId, method }))
    act(subjectId, (person) =>
      people.decideConfirmation(person, {
        subjectId,
        sessionId,
        act: '/console/keys/new',
        method: method === 'link' ? 'code' : 'passkey',
      }),
    )
  }
  visits(accountId, 'link')
  act(accountId, (person) =>
    people.decideSessionEnd(person, {
      subjectId: accountId,
      sessionId: 'ses_golden_link',
      reason: 'signed_out',
    }),
  )
  act(staffId, (person) =>
    people.decideGrant(person, { staffId, role: 'operator', emailCommitment: 'e1'.repeat(32) }),
  )
  act(staffId, (person) =>
    people.decideGrant(person, { staffId, role: 'finance', emailCommitment: 'e1'.repeat(32) }),
  )
  act(staffId, (person) => people.decideRoleRevocation(person, { staffId, role: 'finance' }))
  act(staffId, (person) =>
    people.decideLink(person, { subjectId: staffId, expiresAt: isoTime(now() + 86_400_000) }),
  )
  for (const passkeyId of ['psk_golden_one', 'psk_golden_two'])
    act(staffId, (person) =>
      people.decidePasskey(person, { subjectId: staffId, passkeyId, commitment: 'c1'.repeat(32) }),
    )
  visits(staffId, 'passkey')
  act(staffId, (person) =>
    people.decidePasskeyRemoval(person, { subjectId: staffId, passkeyId: 'psk_golden_one' }),
  )
  act(staffId, (person) =>
    people.decideView(person, {
      staffId,
      sessionId: 'ses_golden_passkey',
      accountId,
      reason: 'a question about an order',
    }),
  )
  act(staffId, (person) =>
    people.decideWorkRetry(person, {
      staffId,
      sessionId: 'ses_golden_passkey',
      queue: 'webhooks',
      item: null,
    }),
  )
}
