import { decideAdoption } from '../../src/domain/accounts/decide.ts'
import { accountFold } from '../../src/domain/accounts/fold.ts'
import { decideTokenAdoption, financeTokenFold } from '../../src/domain/finance/tokens.ts'
import { adoptionRef, decideAdoptionEnd } from '../../src/domain/seals/adoption.ts'
import { decidePersonAdoption } from '../../src/domain/staff/decide.ts'
import { personFold } from '../../src/domain/staff/fold.ts'
import type { AccountId, KeyId } from '../../src/kernel/ids.ts'
import { accountStream, consoleStream, financeStream } from '../../src/kernel/streams.ts'
import type { createHistory } from './history.ts'

/** What an upgrade adopts: an account, a member of the staff and a token whose events commit to nothing. */
export const makeAdoption = ({ fact, state }: ReturnType<typeof createHistory>): void => {
  const commitment = 'ad'.repeat(32)
  const accountId = 'acc_golden_before' as AccountId
  const account = accountStream(accountId)
  const keyId = 'key_golden_before' as KeyId
  fact(
    account,
    { type: 'AccountCreated', data: { accountId, reseller: false } },
    {
      type: 'KeyIssued',
      data: { keyId, scopes: ['buy'], dailyCapCents: null, displayPrefix: 'fbx_olds' },
    },
  )
  const subjectId = 'stf_golden_before'
  const person = consoleStream(subjectId)
  fact(
    person,
    { type: 'StaffRoleGranted', data: { staffId: subjectId, role: 'finance' } },
    { type: 'PasskeyAdded', data: { subjectId, passkeyId: 'psk_golden_before' } },
  )
  const tokenId = 'ftk_golden_before'
  fact(financeStream, {
    type: 'FinanceTokenIssued',
    data: { tokenId, name: 'of before', displayPrefix: 'fbf_olds', expiresAt: null },
  })
  const found = { accountId, emailCommitment: commitment, keys: [{ keyId, commitment }] }
  fact(account, ...decideAdoption(state(account, accountFold), found).events)
  const member = {
    subjectId,
    emailCommitment: commitment,
    passkeys: [{ passkeyId: 'psk_golden_before', commitment }],
  }
  fact(person, ...decidePersonAdoption(state(person, personFold), member).events)
  const tokens = [{ tokenId, commitment }]
  fact(financeStream, ...decideTokenAdoption(state(financeStream, financeTokenFold), tokens).events)
  const adopted = { accounts: 1, people: 1, tokens: 1 }
  fact(adoptionRef.stream, ...decideAdoptionEnd(state(adoptionRef.stream, adoptionRef.fold), adopted).events)
}
