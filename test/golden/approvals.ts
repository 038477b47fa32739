import { accountFold } from '../../src/domain/accounts/fold.ts'
import { approvalLimitsFold, proposalFold } from '../../src/domain/ledger/approvals.ts'
import * as approval from '../../src/domain/ledger/decide-approval.ts'
import { decideManual, manualStream } from '../../src/domain/ledger/decide-manual.ts'
import { ledgerFold } from '../../src/domain/ledger/fold.ts'
import type { ManualMovement } from '../../src/domain/ledger/manual-movements.ts'
import { manualFold } from '../../src/domain/ledger/manual-movements.ts'
import { decideStatement, streamOfLine } from '../../src/domain/ledger/statement-lines.ts'
import { isoTime } from '../../src/kernel/clock.ts'
import type { Actor } from '../../src/kernel/event.ts'
import type { AccountId } from '../../src/kernel/ids.ts'
import {
  accountStream,
  approvalLimitsStream,
  consoleStream,
  ledgerStream,
  proposalStream,
} from '../../src/kernel/streams.ts'
import type { History } from './history.ts'

const alice: Actor = { kind: 'operator', name: 'alice' }
const bob = {
  kind: 'session',
  subjectId: 'stf_golden_bob',
  sessionId: 'ses_golden_bob',
  method: 'passkey',
} as const satisfies Actor

/** Four eyes: a credit that is proposed and approved, others that are declined and withdrawn, and the end of the limit. */
export const makeApprovals = ({ fact, write, state, now, wait, by }: History, accountId: AccountId): void => {
  const fourEyes = () => state(approvalLimitsStream, approvalLimitsFold)
  const proposal = (id: string) => state(proposalStream(id), proposalFold)
  const limit = (limitCents: number | null, proposalId: string): void =>
    by(alice, () => {
      const states = { fourEyes: fourEyes(), proposal: proposal(proposalId) }
      const moment = { actor: alice, nowMs: now() }
      write(approval.decideLimit(states, { limitCents, proposalId }, moment).appends)
    })
  const decided = (movement: ManualMovement) =>
    decideManual(
      {
        account: state(accountStream(accountId), accountFold),
        movement: state(manualStream(movement), manualFold),
        ledger: state(ledgerStream(accountId), ledgerFold),
      },
      movement,
    )
  const propose = (reference: string): ManualMovement => {
    const movement = { kind: 'credit', accountId, reference, amountMicros: 250_000_000 } as const
    by(alice, () => {
      const states = { fourEyes: fourEyes(), proposal: proposal(approval.proposalIdOf(movement)) }
      const moment = { actor: alice, nowMs: now() }
      write(approval.decideWithApproval(states, moment, decided(movement), () => movement).appends)
    })
    return movement
  }
  const close = (movement: ManualMovement, actor: Actor, reason: 'declined' | 'withdrawn'): void =>
    by(actor, () => {
      const found = proposal(approval.proposalIdOf(movement))
      write(approval.decideClosing(found, { reason, note: null }, { actor, nowMs: now() }).appends)
    })

  const { subjectId, sessionId, method } = bob
  for (const act of [
    { type: 'StaffRoleGranted', data: { staffId: subjectId, role: 'operator' } },
    { type: 'SignedIn', data: { subjectId, sessionId, method } },
  ])
    fact(consoleStream(subjectId), act)
  limit(10_000, 'prp_golden_first')
  wait(60_000)
  const large = propose('large')
  by(bob, () => {
    const moment = { actor: bob, nowMs: now() }
    const found = proposal(approval.proposalIdOf(large))
    write(
      approval.decideApproval(
        found,
        moment,
        () => decided(large),
        () => large,
      ).appends,
    )
  })
  close(propose('declined'), bob, 'declined')
  close(propose('withdrawn'), alice, 'withdrawn')
  const line = {
    reference: 'txn_golden_large',
    category: 'payout',
    feeMicros: 0,
    payoutMicros: 150_000_000,
    happenedAt: isoTime(now()),
    file: { name: 'payouts.csv', sha256: 'b2'.repeat(32) },
  }
  const statement = { kind: 'statement', gateway: 'stripe', lines: [line] } as const
  const statementId = approval.proposalIdOf(statement)
  const nothing = { appends: [], answer: null }
  by(alice, () => {
    const states = { fourEyes: fourEyes(), proposal: proposal(statementId) }
    const moment = { actor: alice, nowMs: now() }
    write(approval.decideWithApproval<null>(states, moment, nothing, () => statement).appends)
  })
  by(bob, () => {
    const moment = { actor: bob, nowMs: now() }
    const found = proposal(statementId)
    write(
      approval.decideApproval<null>(
        found,
        moment,
        () => nothing,
        () => statement,
      ).appends,
    )
    const booked = { gateway: 'stripe', ...line, proposalId: statementId }
    fact(streamOfLine(booked), ...decideStatement(null, booked).events)
  })
  limit(null, 'prp_golden_off')
  by(bob, () => {
    const states = { fourEyes: fourEyes(), proposal: proposal('prp_golden_off') }
    write(approval.decideLimitApproval(states, { actor: bob, nowMs: now() }).appends)
  })
  wait(60_000)
}
