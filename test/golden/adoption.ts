import { decideAdoption } from '../../src/domain/accounts/decide.ts'
import { accountFold } from '../../src/domain/accounts/fold.ts'
import { decideTokenAdoption, financeTokenFold } from '../../src/domain/finance/tokens.ts'
import { decideNetworkAdoption, whitelistRef } from '../../src/domain/plans/whitelist.ts'
import { type AdoptionEvent, adoptionRef, decideAdoptionEnd } from '../../src/domain/seals/adoption.ts'
import { decidePersonAdoption } from '../../src/domain/staff/decide.ts'
import { personFold } from '../../src/domain/staff/fold.ts'
import type { AccountId, KeyId, PlanId } from '../../src/kernel/ids.ts'
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
  const whitelist = whitelistRef(accountId)
  const entries = [{ entryId: 'wle_golden_before', planId: 'pln_golden_before' as PlanId, commitment }]
  fact(whitelist.stream, ...decideNetworkAdoption(state(whitelist.stream, whitelist.fold), entries).events)
  const end = (event: AdoptionEvent) =>
    fact(adoptionRef.stream, ...decideAdoptionEnd(state(adoptionRef.stream, adoptionRef.fold), event).events)
  end({ type: 'WhitelistsAdopted', data: { entries: 1 } })
  end({ type: 'CommitmentsAdopted', data: { accounts: 1, people: 1, tokens: 1 } })
}
