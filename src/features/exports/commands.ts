import { type Command, InvalidArgumentError, Option } from 'commander'
import { serviceBook } from '../../domain/ledger/books.ts'
import { type Cli, groupCommand } from '../../platform/cli/cli-context.ts'
import { momentForms, momentOption } from '../finance/for-commands.ts'
import { formats } from './journal-formats.ts'

/** Loaded when a command runs. */
const runs = () => import('./run-commands.ts')

const bookOption = (text: string): string => {
  if (text === serviceBook || /^reseller:acc_[A-Za-z0-9]+$/.test(text)) return text
  throw new InvalidArgumentError('It must be service, or reseller: and the id of a reseller.')
}

const exportExamples = `
Examples:
  npx farebox ledger export --format hledger --out ledger.journal && hledger -f ledger.journal bs service:
  npx farebox ledger export --format beancount --book service --until 2026-11-01 --out october.beancount
  npx farebox ledger export --format csv | gzip > postings.csv.gz
  npx farebox ledger export --format jsonl --out log.jsonl  # complete: "ledger import" makes the same log of it`

const importExamples = `
The file is read whole before anything is written. The log must be empty, or hold the beginning of this file.

Example:
  DATABASE_URL=postgres://user:password@host:5432/empty FAREBOX_DEMO=off npx farebox ledger import log.jsonl`

/** `ledger export|import` */
export const registerExports = (program: Command, cli: Cli): void => {
  const ledger = groupCommand(program, 'ledger')
  ledger
    .command('export')
    .description('write the ledger for hledger, beancount or a spreadsheet, or the whole log as JSON lines')
    .addOption(
      new Option('--format <format>', 'of what is written').choices([...formats]).makeOptionMandatory(),
    )
    .option('--book <book>', 'service or reseller:<account>; without it every book', bookOption)
    .option('--until <moment>', `through the last event at or before it: ${momentForms}`, momentOption)
    .option('--out <file>', 'replaced whole or not at all; without it standard output')
    .addHelpText('after', exportExamples)
    .action(cli.action(async () => (await runs()).writeExport))
  ledger
    .command('import')
    .description('make the log of a jsonl export in an empty log, byte for byte')
    .argument('<file>', 'what "ledger export --format jsonl" wrote')
    .addHelpText('after', importExamples)
    .action(cli.action(async () => (await runs()).runImport, { makes: true, copies: true }))
}

export const commands = [registerExports] as const
