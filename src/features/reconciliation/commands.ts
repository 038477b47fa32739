import { type Command, InvalidArgumentError, Option } from 'commander'
import { providers } from '../../domain/payments/payments.ts'
import { type Cli, groupCommand, wholeNumber } from '../../platform/cli/cli-context.ts'
import { withExamples } from '../../platform/cli/options.ts'
import { bookForms, type Moment, momentOption } from '../finance/for-commands.ts'
import type { Given } from './run-commands.ts'
import { type ColumnRole, columnRoles, type LineKind, lineKinds, separators } from './statement-words.ts'

/** Loaded when a command runs. */
const runs = () => import('./run-commands.ts')

const timeOption = (text: string): Moment => {
  const moment = momentOption(text)
  if (moment.kind === 'time') return moment
  throw new InvalidArgumentError(
    'A statement knows no positions: it must be a date such as 2026-11-21 (its midnight in UTC), or an instant such as 2026-11-21T02:30:00Z.',
  )
}

const afterSign = (text: string, form: string): readonly [string, string] => {
  const at = text.indexOf('=')
  if (at < 1 || at === text.length - 1) throw new InvalidArgumentError(`It must be ${form}.`)
  return [text.slice(0, at), text.slice(at + 1)]
}

const columnOption = (text: string, before: Given['column']): Given['column'] => {
  const [role, heading] = afterSign(text, 'ROLE=HEADING, e.g. amount=Gross')
  if (!columnRoles.includes(role as ColumnRole))
    throw new InvalidArgumentError(`A role is one of ${columnRoles.join(', ')}.`)
  return { ...before, [role]: heading }
}

const wordOption = (text: string, before: Given['word']): Given['word'] => {
  const [word, kind] = afterSign(text, 'WORD=KIND, e.g. sale=payment')
  if (!lineKinds.includes(kind as LineKind))
    throw new InvalidArgumentError(`A kind is one of ${lineKinds.join(', ')}.`)
  return { ...before, [word]: kind as LineKind }
}

/** `finance reconcile` */
export const registerReconcile = (program: Command, cli: Cli): void => {
  const command = groupCommand(program, 'finance')
    .command('reconcile')
    .description(
      'hold the statements of a payment provider against the books; ends with 1 when something does not agree',
    )
    .requiredOption(
      '--gateway <name>',
      'the gateway in the books: stripe, btcpay, nowpayments, or crd_… of a reseller',
    )
    .requiredOption(
      '--file <path>',
      'a statement as CSV; give it again for more files, e.g. the payouts beside the balance change',
      (path: string, before: readonly string[] | undefined) => [...(before ?? []), path],
    )
    .option('--from <time>', 'only what is from there on: a date or an instant', timeOption)
    .option('--to <time>', 'only what is before it: a date or an instant', timeOption)
    .option('--book <name>', bookForms)
    .addOption(
      new Option('--provider <name>', "whose reports they are; left out, the gateway's").choices(providers),
    )
    .option(
      '--column <role=heading>',
      `any other CSV: where the ${columnRoles.join(', ')} of a line stand`,
      columnOption,
      {},
    )
    .option(
      '--word <word=kind>',
      `what a word of the column kind means: ${lineKinds.join(', ')}`,
      wordOption,
      {},
    )
    .addOption(
      new Option('--separator <name>', 'what separates cells')
        .choices(Object.keys(separators))
        .default('comma'),
    )
    .option('--most <n>', 'how many of each are listed; all are counted', wholeNumber(1, 100_000), 100)
    .option('--post', 'book fees and payouts, each once for ever by its id at the provider')
    .action(cli.action(async () => (await runs()).reconcileStatements))
  withExamples(command, [
    'npx farebox finance reconcile --gateway stripe --file balance.csv --file payouts.csv --from 2026-11-01 --to 2026-12-01',
    'npx farebox finance reconcile --gateway stripe --file balance.csv --file payouts.csv --post',
    'npx farebox finance reconcile --gateway btcpay --file invoices.csv --json',
    'npx farebox finance reconcile --gateway bank --file bank.csv --column id=Ref --column at=Date --column amount=Amount --column deposit=Memo',
  ])
}

export const commands = [registerReconcile] as const
