import { books } from '../../../projections/groups.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { CliMisuse, type CliOutput, notFound } from '../../platform/cli/output.ts'
import { type ProgressBar, withProgress } from '../../platform/cli/progress-bar.ts'
import { createCodec } from '../../platform/eventstore/codec.ts'
import { type CatchUpContext, catchUp } from '../../platform/projections/bring-up.ts'
import { type AccountMessages, createAccountLookup } from './book-accounts.ts'
import { resourceIds } from './input-forms.ts'
import { createMoments, MomentPastHead } from './moment.ts'
import { createFinanceReader, type FinanceReader } from './reader.ts'

/** Brings the journal up to the log's head and returns that position, as `catchUp` does. */
export const catchUpBooks = (context: CatchUpContext, bar: ProgressBar): Promise<number> =>
  catchUp(context, { group: books, displayName: 'the journal' }, bar)

/** Runs a command that takes moments. A moment past the end of the log is misuse, not a failure. */
export const momentWork =
  <Arguments extends readonly unknown[]>(
    work: (context: CliContext, ...parameters: Arguments) => Promise<CliOutput>,
  ) =>
  (context: CliContext, ...parameters: Arguments): Promise<CliOutput> =>
    work(context, ...parameters).catch((error) => {
      throw error instanceof MomentPastHead ? new CliMisuse(error.message) : error
    })

const commandMessages: AccountMessages = {
  list: '"ledger trial-balance"',
  below: (account) => `"ledger account ${account}"`,
  naming: 'with --book',
  refusal: (outcome, message) =>
    outcome === 'unknown_book' || outcome === 'unknown_account' ? notFound(message) : new CliMisuse(message),
}

/** Finds books and accounts that a command names. @throws CliMisuse */
export const names = createAccountLookup(commandMessages)

/** `namedAccount` for a command that also takes orders and positions. */
export const { namedAccount: namedOrOther } = createAccountLookup({
  ...commandMessages,
  besides: `; an order is ord_…, an entry the position of its event, e.g. pos_0_1284; these ids are taken too: ${resourceIds}`,
})

/** Opens the journal as of the log's head. If no server runs, this command brings it up to the head. */
export const openReader = async (context: CliContext): Promise<{ head: number; reader: FinanceReader }> => {
  const head = await withProgress((bar) => catchUpBooks({ ...context, decode: createCodec().decode }, bar))
  return { head, reader: createFinanceReader({ ...context, moments: createMoments(context) }) }
}
