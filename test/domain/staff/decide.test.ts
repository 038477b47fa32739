import { test } from 'node:test'
import {
  decideGrant,
  decidePersonAdoption,
  decideSignIn,
  decideView,
  decideWorkRetry,
} from '../../../src/domain/staff/decide.ts'
import { personFold } from '../../../src/domain/staff/fold.ts'
import { decider } from '../../support/decider.ts'

const staffId = 'stf_1'
const person = decider(personFold)
const operator = person.given((state) =>
  decideGrant(state, { staffId, role: 'operator', emailCommitment: 'commitment' }),
)
const signIn = (method: 'link' | 'passkey') => ({ subjectId: staffId, sessionId: 'ses_1', method })

test('staff signs in with a role and a passkey, and not with a link', () => {
  person.when((state) => decideSignIn(state, signIn('passkey'))).thenRefused('no_role')
  operator.when((state) => decideSignIn(state, signIn('link'))).thenRefused('passkey_needed')
  operator.when((state) => decideSignIn(state, signIn('passkey'))).thenEvents('SignedIn')
})

test('only operators view accounts and retry abandoned work', () => {
  const viewed = { staffId, accountId: 'acc_1' } as unknown as Parameters<typeof decideView>[1]
  const retried = { staffId } as unknown as Parameters<typeof decideWorkRetry>[1]
  person.when((state) => decideView(state, viewed)).thenRefused('no_role')
  person.when((state) => decideWorkRetry(state, retried)).thenRefused('no_role')
  operator.when((state) => decideView(state, viewed)).thenEvents('AccountViewed')
  operator.when((state) => decideWorkRetry(state, retried)).thenEvents('WorkRetryAsked')
})

test('commitments of a known person are adopted once, and nothing of an unknown one', () => {
  const found = { subjectId: staffId, emailCommitment: 'later', passkeys: [] }
  person.when((state) => decidePersonAdoption(state, found)).thenEvents()
  operator.when((state) => decidePersonAdoption(state, found)).thenEvents()
  const older = person.given({ type: 'StaffRoleGranted', data: { staffId, role: 'operator' } } as never)
  older.when((state) => decidePersonAdoption(state, found)).thenEvents('PersonCommitmentsAdopted')
})
