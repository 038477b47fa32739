import type { ProposalRow } from '../../../projections/proposals.ts'
import { approvalLimitAt } from '../../domain/ledger/approvals.ts'
import { type ApprovalRefusal, operatorOf } from '../../domain/ledger/decide-approval.ts'
import type { EventCodec } from '../../platform/eventstore/codec.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { CaughtUp } from '../../platform/projections/read-your-writes.ts'
import {
  emptyFormInput,
  type FormInput,
  fieldOf,
  keyField,
  type Problems,
  problemsOf,
} from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import {
  type ConsolePage,
  goTo,
  type PersonVisit,
  personPage,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
import { pagedOf, pageRows, pagerOf, tableOf } from '../../platform/ui/table.ts'
import { afterOf, afterText, idText, stateText, timeText } from '../../platform/ui/text.ts'
import { linkedText } from '../finance/index.ts'
import { isReference, proposalPath } from '../wallet/index.ts'
import {
  limitText,
  type Proposals,
  proposalsAfter,
  readProposal,
  statusOf,
  whatText,
} from './approval-service.ts'

const root = '/console/operator/proposals'

const stateOf = (row: ProposalRow, nowMs: number): Html => {
  const status = statusOf(row, nowMs)
  if (status === 'open') return stateText('waits', 'warn')
  return stateText(status, status === 'approved' ? 'good' : 'off')
}

const isOwn = ({ proposedBy: by }: ProposalRow, { cause }: PersonVisit): boolean =>
  operatorOf(cause.actor) === by

/** A link to the account or the order of the proposal. */
const aboutOf = ({ what, accountId }: ProposalRow, { visitor }: PersonVisit): Html | string =>
  what.kind === 'refund'
    ? linkedText(what.orderId, visitor.roles)
    : accountId === null
      ? ''
      : linkedText(accountId, visitor.roles)

type ProposalReads = { readonly log: EventLog; readonly codec: EventCodec }
type ProposalServices = ProposalReads & {
  readonly db: Db
  readonly caughtUp: CaughtUp
  readonly proposals: Pick<Proposals, 'limits' | 'approve' | 'close'>
}

const list = async ({ db, caughtUp, proposals }: ProposalServices, visit: PersonVisit) => {
  const { query, nowMs, cause } = visit
  const showsAll = query.get('show') === 'all'
  const before = query.get('before')
  const after = afterOf(before)
  await caughtUp()
  const [found, limits] = await Promise.all([
    proposalsAfter(db, { waiting: !showsAll, after, limit: pageRows + 1, nowMs }),
    proposals.limits(cause),
  ])
  const { rows, next } = pagedOf(found, (row) => afterText(row.proposedAt, row.proposalId))
  const limit = approvalLimitAt(limits, nowMs)
  return show({
    title: 'Proposals',
    body: html`<p>${
      limit === null
        ? 'Four eyes are off: one operator may move any amount alone.'
        : `Four eyes: credits, adjustments and refunds ${limitText(limit)} are approved by a second person.`
    }</p>
<p>${showsAll ? html`<a href="${root}">Only what waits</a>` : html`<a href="${root}?show=all">Closed ones too</a>`}</p>
${tableOf({
  caption: showsAll ? 'Proposals, newest first' : 'What waits for approval, newest first',
  rows,
  empty: html`<p>${showsAll ? 'Nothing was proposed yet.' : 'Nothing waits for approval.'}</p>`,
  columns: [
    {
      title: 'What',
      head: true,
      cell: (row) => html`<a href="${proposalPath(row.proposalId)}">${whatText(row.what)}</a>`,
    },
    { title: 'State', cell: (row) => stateOf(row, nowMs) },
    { title: 'About', cell: (row) => aboutOf(row, visit) },
    {
      title: 'Proposed by',
      cell: (row) => (isOwn(row, visit) ? 'you' : html`<code>${row.proposedBy}</code>`),
    },
    { title: 'When', cell: (row) => timeText(row.proposedAt) },
    { title: 'Until', cell: (row) => timeText(row.expiresAt) },
  ],
})}
${pagerOf(root, showsAll ? { show: 'all' } : {}, { before: after === null ? null : before, next })}`,
    same: ['npx farebox proposals list', 'npx farebox four-eyes show'],
  })
}

/**
 * The proposal from the log, not from a table: the approver must see exactly what is approved, even if a table was
 * edited.
 * @throws not_found
 */
const proposalOf = async (reads: ProposalReads, { params }: PersonVisit): Promise<ProposalRow> => {
  const row = await readProposal(reads, params.id ?? '')
  if (row === null) throw refuse('not_found', 'no proposal has this id')
  return row
}

const factsOf = (row: ProposalRow, visit: PersonVisit): Html => html`<dl class="facts">
<dt>What</dt><dd>${whatText(row.what)}</dd>
<dt>State</dt><dd>${stateOf(row, visit.nowMs)}</dd>
${row.accountId === null ? nothing : html`<dt>Account</dt><dd>${linkedText(row.accountId, visit.visitor.roles)}</dd>`}
${row.what.kind === 'refund' ? html`<dt>Order</dt><dd>${linkedText(row.what.orderId, visit.visitor.roles)}</dd>` : nothing}
<dt>Proposed by</dt><dd><code>${row.proposedBy}</code>${isOwn(row, visit) ? ' (you)' : nothing}</dd>
<dt>Proposed</dt><dd>${timeText(row.proposedAt)}</dd>
<dt>Until</dt><dd>${timeText(row.expiresAt)}</dd>
${row.closedBy === null ? nothing : html`<dt>Answered by</dt><dd><code>${row.closedBy}</code> ${timeText(row.closedAt)}</dd>`}
${row.note === null ? nothing : html`<dt>Why</dt><dd>${row.note}</dd>`}
<dt>Proposal</dt><dd>${idText(row.proposalId)}</dd>
</dl>`

const proposalView = async (reads: ProposalReads, visit: PersonVisit) => {
  const row = await proposalOf(reads, visit)
  const pagePath = proposalPath(row.proposalId)
  const waits = statusOf(row, visit.nowMs) === 'open'
  const isOwnProposal = isOwn(row, visit)
  return show({
    title: 'A proposal',
    acts: waits
      ? html`${isOwnProposal ? nothing : html`<a class="button first" href="${pagePath}/approve">Approve</a>`}
<a class="button danger" href="${pagePath}/close">${isOwnProposal ? 'Withdraw' : 'Decline'}</a>`
      : nothing,
    body: html`${factsOf(row, visit)}${waits && isOwnProposal ? html`<p>Another operator approves it. Nothing moved yet.</p>` : nothing}
<p><a href="${root}">All proposals</a></p>`,
    same: [`npx farebox proposals show ${row.proposalId}`],
  })
}

const approveView = async (reads: ProposalReads, visit: PersonVisit, problems: Problems): Promise<View> => {
  const row = await proposalOf(reads, visit)
  const pagePath = proposalPath(row.proposalId)
  return {
    title: 'Approve a proposal',
    body: html`${problemsOf(problems)}${factsOf(row, visit)}
<p>It is carried out at once, and in your name.</p>
<form method="post" class="stack" novalidate>
${keyField(visit.formKey)}
<div class="acts"><button class="first">Approve: ${whatText(row.what)}</button> <a href="${pagePath}">Back</a></div>
</form>`,
    same: [`npx farebox proposals approve ${row.proposalId}`],
  }
}

const refusals: Readonly<Record<ApprovalRefusal['code'], string>> = {
  unknown_proposal: 'No proposal has this id.',
  not_an_operator: 'Only operators answer proposals.',
  own_proposal: 'You proposed it: another operator approves or declines it.',
  not_own_proposal: 'Only its proposer can withdraw it.',
  proposal_closed: 'It was answered before, or its time is over.',
  proposal_outdated:
    'What it comes to now is not what was proposed: something of it moved meanwhile. Have it proposed anew.',
}

const approve = async (services: ProposalServices, visit: PersonVisit) => {
  const proposalId = visit.params.id ?? ''
  const retryView = async (form: string) => refusedView(await approveView(services, visit, { form }), 409)
  const approved = await services.proposals.approve(proposalId, visit.cause)
  if ('outcome' in approved) {
    if (approved.refusal.code === 'unknown_proposal') throw refuse('not_found', 'no proposal has this id')
    return retryView(refusals[approved.refusal.code])
  }
  if (approved.of === 'movement' && approved.answer.outcome === 'refused')
    return retryView(
      approved.answer.refusal.code === 'already_applied'
        ? 'It moved before, and nothing moved now.'
        : `It cannot be carried out now (${approved.answer.refusal.code.replaceAll('_', ' ')}): nothing moved.`,
    )
  if (approved.of === 'refund' && approved.answer.kind === 'refused')
    return retryView(`It was refused: ${approved.answer.reason}.`)
  return goTo(proposalPath(proposalId), 'It is approved and carried out.')
}

const closeView = async (
  reads: ProposalReads,
  visit: PersonVisit,
  typed: FormInput,
  problems: Problems,
): Promise<View> => {
  const row = await proposalOf(reads, visit)
  const isOwnProposal = isOwn(row, visit)
  const closeLabel = isOwnProposal ? 'Withdraw' : 'Decline'
  return {
    title: `${closeLabel} a proposal`,
    body: html`${problemsOf(problems)}${factsOf(row, visit)}
<form method="post" class="stack" novalidate>
${fieldOf({ name: 'note', label: 'Why', hint: 'May be left empty. It stays in the log for good: name no person.', maxlength: 200 }, typed, problems)}
<div class="acts"><button class="danger">${closeLabel}: ${whatText(row.what)}</button> <a href="${proposalPath(row.proposalId)}">Back</a></div>
</form>`,
    same: [`npx farebox proposals ${closeLabel.toLowerCase()} ${row.proposalId}`],
  }
}

const close = async (services: ProposalServices, visit: PersonVisit, typed: FormInput) => {
  const row = await proposalOf(services, visit)
  const note = typed.text('note')
  if (note !== '' && !isReference(note))
    return refusedView(
      await closeView(services, visit, typed, { note: 'At most 200 characters, in one line.' }),
    )
  const reason = isOwn(row, visit) ? 'withdrawn' : 'declined'
  const closure = { reason, note: note === '' ? null : note } as const
  const answer = await services.proposals.close(row.proposalId, closure, visit.cause)
  if (answer.outcome === 'refused')
    return refusedView(await closeView(services, visit, typed, { form: refusals[answer.refusal.code] }), 409)
  return goTo(proposalPath(row.proposalId), `It is ${reason}.`)
}

/** The pages of proposals that need the approval of a second operator: list, approve, decline, withdraw. */
export const proposalPages = (services: ProposalServices): readonly ConsolePage[] => {
  const operator = { for: ['operator'] } as const
  return [
    personPage({
      ...operator,
      path: root,
      name: 'listProposals',
      summary: 'What waits for the approval of another operator',
      nav: { label: 'Proposals', group: 'Operator' },
      show: (visit) => list(services, visit),
    }),
    personPage({
      ...operator,
      path: `${root}/{id}`,
      name: 'showProposal',
      summary: 'One proposal: what, for whom, by whom, and what became of it',
      show: (visit) => proposalView(services, visit),
    }),
    personPage({
      ...operator,
      path: `${root}/{id}/approve`,
      name: 'approveProposal',
      summary: 'Approves what another operator proposed, which is carried out',
      confirmed: true,
      show: async (visit) => show(await approveView(services, visit, {})),
      act: { once: true, run: (visit) => approve(services, visit) },
    }),
    personPage({
      ...operator,
      path: `${root}/{id}/close`,
      name: 'closeProposal',
      summary: 'Declines a proposal of another, or withdraws one of your own',
      show: async (visit) => show(await closeView(services, visit, emptyFormInput, {})),
      act: { run: (visit, typed) => close(services, visit, typed) },
    }),
  ]
}
