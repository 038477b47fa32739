import type pg from 'pg'
import type { ProposalRow } from '../../../projections/proposals.ts'
import { approvalLimitAt, type ProposedAction } from '../../domain/ledger/approvals.ts'
import { type ApprovalRefusal, operatorOf } from '../../domain/ledger/decide-approval.ts'
import type { ProposedLine } from '../../domain/ledger/statement-lines.ts'
import { amountWriter, microsToCentsFloor } from '../../kernel/money.ts'
import type { EventCodec } from '../../platform/eventstore/codec.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { CaughtUp } from '../../platform/projections/read-your-writes.ts'
import { fieldOf, formOf } from '../../platform/ui/form.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import { listPage } from '../../platform/ui/list.ts'
import { type ConsolePage, goTo, operatorPage, type PersonVisit, refused } from '../../platform/ui/page.ts'
import {
  type Column,
  detailsOf,
  nameColumn,
  tableOf,
  textColumn,
  timeColumn,
} from '../../platform/ui/table.ts'
import { afterText, buttonLink, dollarText, idText, stateText, timeText } from '../../platform/ui/text.ts'
import { emailsOf } from '../accounts/index.ts'
import { refundRefusalText, resolutionRefusal } from '../deposits/index.ts'
import { linkedText } from '../finance/index.ts'
import { listStaff } from '../sign-in/index.ts'
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
  if (status === 'open') return stateText('open', 'warn')
  return stateText(status, status === 'approved' ? 'good' : 'off')
}

const isOwn = ({ proposedBy: by }: ProposalRow, { cause }: PersonVisit): boolean =>
  operatorOf(cause.actor) === by

/** What approvers see of the persons of a proposal. */
type Persons = {
  /** The e-mails of members of the staff, by id. */
  readonly staff: ReadonlyMap<string, string>
  readonly email: string | null
  /** Null: the account has no wallet yet. */
  readonly availableMicros: number | null
}

const factsOf = (row: ProposalRow, visit: PersonVisit, { staff, email, availableMicros }: Persons): Html => {
  const linked = (id: string | null): Html | '' | null => id && linkedText(id, visit.visitor.roles)
  const memberOf = (id: string): Html => html`${staff.get(id) ?? html`<code>${id}</code>`}`
  const { what } = row
  return detailsOf([
    ['Action', whatText(what)],
    ['State', stateOf(row, visit.nowMs)],
    ['Account', row.accountId && html`${email} ${linked(row.accountId)}`],
    ['Balance', availableMicros === null ? null : dollarText(microsToCentsFloor(availableMicros))],
    ['Order', what.kind === 'refund' ? linked(what.orderId) : null],
    ['Deposit', what.kind === 'deposit_refund' ? linked(what.depositId) : null],
    ['Proposed by', html`${memberOf(row.proposedBy)}${isOwn(row, visit) ? ' (you)' : nothing}`],
    ['Proposed', timeText(row.proposedAt)],
    ['Expires', timeText(row.expiresAt)],
    ['Closed by', row.closedBy && html`${memberOf(row.closedBy)} ${timeText(row.closedAt)}`],
    ['Reason', row.note],
    ['Proposal', idText(row.proposalId)],
  ])
}

/** The lines of a statement: exactly these are booked. */
const linesOf = (what: ProposedAction): Html => {
  if (what.kind !== 'statement') return nothing
  const write = amountWriter(
    what.lines.flatMap(({ feeMicros, payoutMicros }) => [BigInt(feeMicros), BigInt(payoutMicros)]),
  )
  const amount = (title: string, microsOf: (line: ProposedLine) => number): Column<ProposedLine> => ({
    title,
    number: true,
    cell: (line) => write(BigInt(microsOf(line))),
  })
  const files = new Map(what.lines.map(({ file }) => [file?.sha256, file]))
  return html`<ul>${[...files.values()].map((file) => html`<li>${file?.name ?? ''}, SHA-256 <code>${file?.sha256 ?? ''}</code></li>`)}</ul>
${tableOf({
  caption: 'Lines that are booked',
  rows: what.lines,
  empty: 'There are no lines.',
  columns: [
    { title: 'Id at the provider', head: true, cell: ({ reference }) => html`<code>${reference}</code>` },
    { title: 'Category', cell: ({ category }) => category },
    amount('Fee, USD', ({ feeMicros }) => feeMicros),
    amount('Payout, USD', ({ payoutMicros }) => payoutMicros),
    { title: 'Time', cell: ({ happenedAt }) => timeText(happenedAt) },
    { title: 'File', place: 'minor', cell: ({ file }) => file?.name ?? null },
  ],
})}`
}

/** The id of what is refunded; null: the subject is an account, or a setting. */
const subjectOf = (what: ProposedAction): string | null => {
  if (what.kind === 'refund') return what.orderId
  return what.kind === 'deposit_refund' ? what.depositId : null
}

const refusals: Readonly<Record<ApprovalRefusal['code'], string>> = {
  unknown_proposal: 'No proposal has this id.',
  not_an_operator: 'Only operators can approve or decline proposals.',
  own_proposal: 'You proposed it: another operator must approve or decline it.',
  not_own_proposal: 'Only its proposer can withdraw it.',
  proposal_closed: 'It is already closed, or it has expired.',
  proposal_outdated: 'The amount changed after the proposal. It must be proposed again.',
}

/** The pages of proposals that need the approval of a second operator: list, approve, decline, withdraw. */
export const proposalPages = ({
  log,
  codec,
  db,
  pool,
  caughtUp,
  proposals,
}: {
  readonly log: EventLog
  readonly codec: EventCodec
  readonly db: Db
  readonly pool: pg.Pool
  readonly caughtUp: CaughtUp
  readonly proposals: Pick<Proposals, 'limits' | 'approve' | 'close'>
}): readonly ConsolePage[] => {
  /**
   * The proposal from the log, not from a table: the approver must see exactly what is approved, even if a table was
   * edited.
   * @throws not_found
   */
  const proposalOf = async ({ params }: PersonVisit): Promise<ProposalRow> => {
    const row = await readProposal({ log, codec }, params.id ?? '')
    if (row === null) throw refuse('not_found', 'no proposal has this id')
    return row
  }

  const facts = async (row: ProposalRow, visit: PersonVisit): Promise<Html> => {
    const { accountId } = row
    const [staff, emails, balance] = await Promise.all([
      listStaff(pool),
      emailsOf(pool, accountId === null ? [] : [accountId]),
      db
        .selectFrom('read.balances')
        .select('availableMicros')
        .where('accountId', '=', accountId ?? '')
        .executeTakeFirst(),
    ])
    return factsOf(row, visit, {
      staff: new Map(staff.map(({ staffId, email }) => [staffId, email])),
      email: emails.get(accountId ?? '') ?? null,
      availableMicros: balance?.availableMicros ?? null,
    })
  }

  const approve = async (visit: PersonVisit) => {
    const proposalId = visit.params.id ?? ''
    const refusedWith = (form: string) => refused({ form }, 409)
    const approved = await proposals.approve(proposalId, visit.cause)
    if ('outcome' in approved) {
      if (approved.refusal.code === 'unknown_proposal') throw refuse('not_found', 'no proposal has this id')
      return refusedWith(refusals[approved.refusal.code])
    }
    if (approved.of === 'movement' && approved.answer.outcome === 'refused')
      return refusedWith(
        approved.answer.refusal.code === 'already_applied'
          ? 'It was already applied. No money was moved now.'
          : `It is not possible now (${approved.answer.refusal.code.replaceAll('_', ' ')}). No money was moved.`,
      )
    if (approved.of === 'refund' && approved.answer.kind === 'refused')
      return refusedWith(`It was refused: ${approved.answer.reason}.`)
    if (approved.of === 'deposit_refund' && approved.answer.outcome === 'refused')
      return refusedWith(`It was refused: ${refundRefusalText(approved.answer.refusal)}.`)
    if (approved.of === 'unmatched' && approved.answer.outcome === 'refused')
      return refusedWith(`It was refused: ${resolutionRefusal(approved.answer.refusal).message}.`)
    return goTo(proposalPath(proposalId), 'The proposal is approved and carried out.')
  }

  return [
    listPage(operatorPage, {
      path: root,
      name: 'listProposals',
      summary: 'Proposals that need the approval of another operator',
      title: 'Proposals',
      filters: { show: { label: 'Show', choices: { open: 'open', all: 'all' }, standard: 'open' } },
      intro: async ({ cause, nowMs }) => {
        const limit = approvalLimitAt(await proposals.limits(cause), nowMs)
        return html`<p>${
          limit === null
            ? 'A second approver is not required: one operator can move any amount.'
            : `Credits, adjustments, refunds and posted statements ${limitText(limit)} need a second approver.`
        }</p>`
      },
      caption: 'Proposals, newest first',
      load: async (visit, { show, ...page }) => {
        await caughtUp()
        return proposalsAfter(db, { waiting: show !== 'all', ...page, nowMs: visit.nowMs })
      },
      keyOf: (row) => afterText(row.proposedAt, row.proposalId),
      columns: (visit) => [
        nameColumn('Action', ({ what, proposalId }) => ({
          text: whatText(what),
          href: proposalPath(proposalId),
        })),
        { title: 'State', place: 'plain', cell: (row) => stateOf(row, visit.nowMs) },
        {
          title: 'Subject',
          cell: ({ what, accountId }) => linkedText(subjectOf(what) ?? accountId ?? '', visit.visitor.roles),
        },
        textColumn('Proposed by', (row) => (isOwn(row, visit) ? 'you' : row.proposedBy), { place: 'minor' }),
        timeColumn('Proposed', ({ proposedAt }) => proposedAt),
        timeColumn('Expires', ({ expiresAt }) => expiresAt),
      ],
      empty: 'Nothing waits for approval.',
      cliEquivalents: () => ['bin/farebox proposals list', 'bin/farebox four-eyes show'],
    }),
    operatorPage({
      path: `${root}/{id}`,
      name: 'showProposal',
      summary: 'One proposal and its state',
      show: async (visit) => {
        const row = await proposalOf(visit)
        const pagePath = proposalPath(row.proposalId)
        const isOpen = statusOf(row, visit.nowMs) === 'open'
        const own = isOwn(row, visit)
        return {
          title: 'Proposal',
          actions: isOpen
            ? html`${own ? nothing : buttonLink(`${pagePath}/approve`, 'Approve', 'first')}${buttonLink(`${pagePath}/close`, own ? 'Withdraw' : 'Decline', 'danger')}`
            : nothing,
          body: html`${await facts(row, visit)}${linesOf(row.what)}${isOpen && own ? html`<p>Another operator must approve it. No money was moved yet.</p>` : nothing}
<p><a href="${root}">All proposals</a></p>`,
          cliEquivalents: [`bin/farebox proposals show ${row.proposalId}`],
        }
      },
    }),
    operatorPage({
      path: `${root}/{id}/approve`,
      name: 'approveProposal',
      summary: 'Approves and carries out a proposal of another operator',
      confirmed: true,
      show: async (visit) => {
        const row = await proposalOf(visit)
        const back = proposalPath(row.proposalId)
        return {
          title: 'Approve a proposal',
          body: html`${await facts(row, visit)}${linesOf(row.what)}
<p>It is carried out at once, with you as the approver.</p>
${formOf(visit.form, { submit: `Approve: ${whatText(row.what)}`, back })}`,
          cliEquivalents: [`bin/farebox proposals approve ${row.proposalId}`],
        }
      },
      act: { once: true, run: approve },
    }),
    operatorPage({
      path: `${root}/{id}/close`,
      name: 'closeProposal',
      summary: 'Declines a proposal of another operator, or withdraws an own one',
      show: async (visit) => {
        const { form } = visit
        const row = await proposalOf(visit)
        const closeLabel = isOwn(row, visit) ? 'Withdraw' : 'Decline'
        const noteField = {
          name: 'note',
          label: 'Reason',
          hint: 'Optional. It stays in the log: do not include personal data.',
          maxlength: 200,
        }
        return {
          title: `${closeLabel} a proposal`,
          body: html`${await facts(row, visit)}
${formOf(form, { fields: [fieldOf(noteField, form)], submit: `${closeLabel}: ${whatText(row.what)}`, danger: true, back: proposalPath(row.proposalId) })}`,
          cliEquivalents: [`bin/farebox proposals ${closeLabel.toLowerCase()} ${row.proposalId}`],
        }
      },
      act: {
        run: async (visit, typed) => {
          const row = await proposalOf(visit)
          const note = typed.text('note')
          if (note !== '' && !isReference(note))
            return refused({ note: 'At most 200 characters, in one line.' })
          const reason = isOwn(row, visit) ? 'withdrawn' : 'declined'
          const closure = { reason, note: note || null } as const
          const answer = await proposals.close(row.proposalId, closure, visit.cause)
          return answer.outcome === 'refused'
            ? refused({ form: refusals[answer.refusal.code] }, 409)
            : goTo(proposalPath(row.proposalId), `The proposal is ${reason}.`)
        },
      },
    }),
  ]
}
