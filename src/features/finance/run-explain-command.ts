import { kindText } from '../../domain/finance/entry-kinds.ts'
import type { OrderDetails } from '../../domain/shared/order-terms.ts'
import { actorText, type RecordedEvent } from '../../kernel/event.ts'
import { pluralize } from '../../kernel/formats.ts'
import { parsePosition, positionToken } from '../../kernel/log-position.ts'
import { amountWriter } from '../../kernel/money.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import type { InputOf } from '../../platform/cli/input.ts'
import { type CliOutput, notFound } from '../../platform/cli/output.ts'
import { momentWork, namedOrOther, openReader } from './command-input.ts'
import type { explainInput } from './commands.ts'
import {
  type ExplainedEvent,
  type Explanation,
  explainEntry,
  explainPositions,
  explainResource,
  orderIn,
} from './explain.ts'
import { accountText } from './gateway-names.ts'
import { resourceKind } from './input-forms.ts'
import { closingMicros } from './journal.ts'
import { refuseMomentPastHead } from './moment.ts'
import { spanText, sumsJson } from './trial-balance.ts'

const dollars = amountWriter([])

const centsText = (cents: number): string => `$${dollars(BigInt(cents) * 10_000n)}`

/** The ordered item and its price. */
export const orderText = (order: OrderDetails): string =>
  [
    `${order.kind} of ${order.quantity} ${order.unit} ${order.productId} for ${centsText(order.amountCents)}`,
    `unit price ${centsText(order.unitPriceCents)}`,
    `list price ${centsText(order.listCents)}`,
    ...(order.costCents === undefined ? [] : [`cost ${centsText(order.costCents)}`]),
    ...(order.customerId === null ? [] : [`customer ${order.customerId}`]),
  ].join(', ')

/** The names and values of an event's plain fields. */
export const factsText = (event: RecordedEvent): string =>
  Object.entries(event.data as Record<string, unknown>)
    .filter(([, value]) => value !== null && typeof value !== 'object')
    .map(([name, value]) => `${name} ${value}`)
    .join(', ')

const linkText = ({ event, at, kind, approval, postings }: ExplainedEvent): string => {
  const { actor, correlationId, causationId, recordedAt } = event.metadata
  const order = orderIn(event)
  const write = amountWriter(postings.map(({ amountMicros }) => amountMicros))
  return [
    `${positionToken(event.position)}  ${event.type}${kind === null ? '' : ` (${kindText(kind)})`}  ${event.stream} revision ${event.revision}`,
    `    at ${at}${at === recordedAt ? '' : `, recorded at ${recordedAt}`} by ${actorText(actor)}, through ${correlationId}${causationId === null ? '' : `, answering event ${causationId}`}`,
    ...(approval === null
      ? []
      : [
          `    proposed by ${approval.proposedBy}, approved by ${approval.approvedBy}: ${approval.proposalId}`,
        ]),
    `    ${[order && orderText(order), factsText(event)].filter((text) => text).join('; ')}`,
    ...postings.map(
      ({ book, account, gateway, amountMicros }) =>
        `    ${amountMicros > 0n ? 'debit ' : 'credit'} ${write(amountMicros < 0n ? -amountMicros : amountMicros)}  ${accountText(account, gateway)}  (${book})`,
    ),
  ].join('\n')
}

/** The chain, one event below the other, and the terms with the actors that set them. */
const explanationText = ({ chain, terms, leftOut }: Explanation): string =>
  [
    ...(leftOut === 0 ? [] : [`${pluralize(leftOut, 'more event')} left out: --limit shows more`]),
    ...chain.map(linkText),
    ...(terms.length === 0 ? [] : ['on these terms:']),
    ...terms.map(
      ({ what, event }) =>
        `    ${what}: ${event.type} at position ${positionToken(event.position)}, ${event.metadata.recordedAt}, by ${actorText(event.metadata.actor)}, through ${event.metadata.correlationId}`,
    ),
  ].join('\n')

const eventJson = (event: RecordedEvent) => ({
  position: positionToken(event.position),
  eventId: event.id,
  type: event.type,
  stream: event.stream,
  revision: event.revision,
  recordedAt: event.metadata.recordedAt,
  actor: actorText(event.metadata.actor),
  correlationId: event.metadata.correlationId,
  causationId: event.metadata.causationId,
})

const explanationJson = ({ chain, terms, leftOut }: Explanation) => ({
  leftOut,
  chain: chain.map(({ event, at, kind, approval, postings }) => ({
    ...eventJson(event),
    at,
    kind,
    approval,
    data: event.data,
    postings: postings.map((posting) => ({ ...posting, amountMicros: String(posting.amountMicros) })),
  })),
  // Without the event's data, because the whole catalogue is in one event. The actor is what matters.
  terms: terms.map(({ what, event }) => ({ what, ...eventJson(event) })),
})

type ExplainInput = InputOf<typeof explainInput>

const output = (explanation: Explanation, heading: string, extraFields: object = {}): CliOutput => ({
  json: { ...extraFields, ...explanationJson(explanation) },
  text: `${heading}\n\n${explanationText(explanation)}`,
})

/** The last lines behind the balance of an account. */
const explainAccount = async (
  context: CliContext,
  { head, reader }: Awaited<ReturnType<typeof openReader>>,
  { subject, asOf, book, limit }: ExplainInput,
): Promise<CliOutput> => {
  const found = await namedOrOther(context.db, subject, { book, below: false })
  const filter = { ...found, below: false }
  const range = { asOf }
  const { span, totals } = await reader.totals(range, head, filter)
  const offset = Math.max(0, totals.lines - limit)
  const { lines } = await reader.statement(range, head, filter, { limit, offset })
  const positions = [...new Set(lines.map(({ position }) => position))]
  const explanation = await explainPositions(context, positions)
  const closing = closingMicros(totals)
  const shown = offset === 0 ? 'all of its lines' : `the last ${lines.length} of its ${totals.lines} lines`
  return output(
    explanation,
    `${found.account} in the book ${found.book} is at ${amountWriter([closing])(closing)} ${spanText(span, false)}; ${shown}:`,
    { ...found, position: positionToken(span.position), lines: totals.lines, ...sumsJson(totals) },
  )
}

export const explain = momentWork(async (context: CliContext, input: ExplainInput) => {
  const { subject, limit } = input
  const opened = await openReader(context)
  const { head } = opened
  const word = resourceKind(subject)
  if (word !== null) {
    const explanation = await explainResource(context, subject, { head, limit })
    if (!explanation) throw notFound(`no event names the ${word} ${subject}`)
    return output(
      explanation,
      `${word} ${subject}`,
      word === 'order' ? { orderId: subject } : { id: subject },
    )
  }
  const position = parsePosition(subject)
  if (position !== null) {
    const token = positionToken(position)
    refuseMomentPastHead({ kind: 'position', position }, head, context.clock())
    const explanation = await explainEntry(context, position, limit)
    if (!explanation) throw notFound(`the log has no event at position ${token}`)
    return output(explanation, `the event at position ${token} and its request`, { position: token })
  }
  return explainAccount(context, opened, input)
})
