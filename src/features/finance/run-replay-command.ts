import { positionToken } from '../../kernel/log-position.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { type Format, inFormat } from '../../platform/cli/options.ts'
import { CliMisuse } from '../../platform/cli/output.ts'
import { createProgressBar, stepsOf } from '../../platform/cli/progress-bar.ts'
import { createCodec } from '../../platform/eventstore/codec.ts'
import { accountName } from './book-accounts.ts'
import { momentWork } from './command-input.ts'
import { withGateways } from './gateway-names.ts'
import type { Moment } from './input-forms.ts'
import { refuseMomentPastHead } from './moment.ts'
import { replay } from './replay.ts'
import { byBook, trialBalanceCsv, trialBalanceJson, trialBalanceText } from './trial-balance.ts'

type ReplayCommandOptions = {
  readonly until?: Moment
  readonly account?: string
  readonly book?: string
  readonly format: Format
}

/** Whether an account is the wanted one or below it, in the wanted book. */
const accountMatcher = ({
  account,
  book,
}: ReplayCommandOptions): ((book: string, account: string) => boolean) => {
  const name = account === undefined ? null : accountName(account)
  return (inBook, of) =>
    (book === undefined || inBook === book) && (name === null || of === name || of.startsWith(`${name}:`))
}

export const replayLog = momentWork(async ({ log, clock }: CliContext, options: ReplayCommandOptions) => {
  const head = await log.head()
  const { until = null } = options
  if (until) refuseMomentPastHead(until, head, clock())
  const bar = createProgressBar(process.stderr)
  const total = until?.kind === 'position' ? until.position : head
  const { decode } = createCodec()
  const onPage = stepsOf(bar, 'replay', total)
  const done = await replay({ log, decode, head, until, isIncluded: accountMatcher(options), onPage })
  bar.end()
  const { position, at, events, entries, sums } = done
  if (sums.length === 0 && (options.account !== undefined || options.book !== undefined))
    throw new CliMisuse(
      `no entry up to position ${positionToken(position)} names ${options.account === undefined ? `the book ${options.book}` : accountName(options.account)}; without --account and --book all are listed`,
      {},
      'not_found',
    )
  const span = { after: 0, position, at }
  const books = byBook(await withGateways(log, sums))
  return inFormat(options.format, {
    json: () => ({ events, entries, ...trialBalanceJson(span, books) }),
    csv: () => trialBalanceCsv(books),
    table: () =>
      `${events.toLocaleString('en-US')} events, ${entries.toLocaleString('en-US')} entries\n\n${trialBalanceText(span, books, false)}`,
  })
})
