import { InvalidArgumentError } from 'commander'
import { serviceBook } from '../../domain/ledger/books.ts'
import { isDate } from '../../kernel/clock.ts'
import { command } from '../../platform/cli/command.ts'
import { argument, flag, oneOf, option, required } from '../../platform/cli/input.ts'
import { momentForms, momentText } from '../finance/for-commands.ts'
import { dailyFormats, formats } from './journal-formats.ts'

const runs = () => import('./run-commands.ts')

const bookName = (text: string): string => {
  if (text === serviceBook || /^reseller:acc_[A-Za-z0-9]+$/.test(text)) return text
  throw new InvalidArgumentError('It must be service, or reseller: and the id of a reseller.')
}

const dayText = (text: string): string => {
  if (isDate(text)) return text
  throw new InvalidArgumentError('It must be a day such as 2026-11-01.')
}

export const exportInput = {
  format: required('<format>', 'the format of the export', oneOf([...formats, ...dailyFormats])),
  book: option(
    '<book>',
    'service or reseller:<account>; default: every book, for xero and quickbooks service',
    bookName,
  ),
  until: option('<moment>', `up to a moment: ${momentForms}`, momentText),
  from: option('<day>', 'xero, quickbooks: the first day, such as 2026-11-01 (UTC)', dayText),
  to: option('<day>', 'xero, quickbooks: the day after the last one', dayText),
  mapping: option('<file>', 'xero, quickbooks: CSV that maps accounts to those of the other system'),
  out: option('<file>', 'written completely or not at all; default: standard output'),
  json: flag('print only JSON'),
}

export const commands = [
  command({
    name: 'ledger export',
    about: 'write the ledger for accounting software or a spreadsheet, or the whole log as JSON lines',
    input: exportInput,
    examples: [
      'bin/farebox ledger export --format hledger --out ledger.journal && hledger -f ledger.journal bs service:',
      'bin/farebox ledger export --format beancount --book service --until 2026-11-01 --out october.beancount',
      'bin/farebox ledger export --format csv | gzip > postings.csv.gz',
      'bin/farebox ledger export --format xero --from 2026-11-01 --to 2026-12-01 --mapping xero-accounts.csv --out xero.csv',
      'bin/farebox ledger export --format jsonl --out log.jsonl  # complete: "ledger import" recreates the log from it',
    ],
    run: async () => (await runs()).writeExport,
  }),
  command(
    {
      name: 'ledger import',
      about: 'recreate the log from a jsonl export in an empty log, byte for byte',
      input: { file: argument('<file>', 'a file of "ledger export --format jsonl"') },
      details:
        'The whole file is checked before anything is written. The log must be empty, or hold the beginning of this file.',
      examples: [
        'DATABASE_URL=postgres://user:password@host:5432/empty FAREBOX_DEMO=off bin/farebox ledger import log.jsonl',
      ],
      run: async () => (await runs()).runImport,
    },
    { makes: true, copies: true },
  ),
]
