import { open } from 'node:fs/promises'
import { serviceBook } from '../../domain/ledger/books.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { positionToken } from '../../kernel/log-position.ts'
import { closingDelayMs } from '../../kernel/months.ts'
import { accountStream } from '../../kernel/streams.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { type InputOf, readText } from '../../platform/cli/input.ts'
import { CliMisuse, type CliOutput, CliRefusal, fields, notFound } from '../../platform/cli/output.ts'
import { stepsOf, withProgress } from '../../platform/cli/progress-bar.ts'
import { fileSink, type Sink, streamSink, UnwritableFile } from '../../platform/outgoing/file-sink.ts'
import { lockKeys, takeLock } from '../../platform/postgres/locks.ts'
import { momentWork } from '../finance/index.ts'
import { MappingProblem, parseMapping } from './account-mapping.ts'
import type { exportInput } from './commands.ts'
import { TooManyJournalLines, UnmappedAccounts } from './daily-journals.ts'
import { type DailyExport, type Exported, exportLedger, type JournalExport } from './export-log.ts'
import { ImportBrokeOff, type Imported, importLog, LogNotEmpty } from './import-log.ts'
import type { DailyFormat, Format } from './journal-formats.ts'
import { NoExport } from './jsonl.ts'

const assertBook = async ({ log }: CliContext, book: string): Promise<void> => {
  if (book === serviceBook) return
  const accountId = book.slice(book.indexOf(':') + 1) as AccountId
  for await (const { type, data } of log.readStream(accountStream(accountId)))
    if (type === 'AccountCreated' && (JSON.parse(data) as { reseller: boolean }).reseller) return
  throw notFound(`there is no reseller ${accountId}, so it has no book`)
}

const openSink = async (out: string | undefined): Promise<Sink> => {
  if (out === undefined) return streamSink(process.stdout)
  try {
    return await fileSink(out)
  } catch (error) {
    if (error instanceof UnwritableFile) throw new CliMisuse(error.message)
    throw error
  }
}

const exported = ({ openFrom, ...outcome }: Exported, file: string | null): CliOutput => {
  const result = { ...outcome, position: positionToken(outcome.position) }
  const note =
    openFrom === null
      ? null
      : `fees and payouts from ${openFrom} on can be added later, because their month is not closed`
  return {
    json: { ...result, file, openFrom },
    text: file === null ? null : fields({ file, ...result, note }),
  }
}

/** The options of `xero` and `quickbooks`, which other formats refuse. */
const dailyOptions = ['from', 'to', 'mapping'] as const

/** @throws CliMisuse */
const journalExportOf = (
  format: Format,
  { book, until, ...input }: InputOf<typeof exportInput>,
): JournalExport => {
  for (const name of dailyOptions)
    if (input[name] !== undefined) throw new CliMisuse(`${format} takes no --${name}`)
  if (format === 'jsonl' && book !== undefined)
    throw new CliMisuse('jsonl is the whole log: it takes no --book')
  return { format, book: book ?? null, until: until ?? null }
}

/** @throws CliMisuse */
const dailyExportOf = async (
  format: DailyFormat,
  { book = serviceBook, until, from, to, mapping: file }: InputOf<typeof exportInput>,
  { clock, calendar }: CliContext,
): Promise<DailyExport> => {
  if (from === undefined || to === undefined || file === undefined)
    throw new CliMisuse(`${format} needs --from, --to and --mapping`)
  if (until !== undefined) throw new CliMisuse(`${format} takes --to in place of --until`)
  if (to <= from) throw new CliMisuse('--to is the day after the last one: it must be after --from')
  const fromMs = calendar.startOfDayMs(to) + closingDelayMs
  if (clock() < fromMs)
    throw new CliMisuse(`the day before ${to} is not over: export it from ${isoTime(fromMs)} on`)
  try {
    return { format, book, from, to, mapping: parseMapping(await readText(file), format) }
  } catch (error) {
    throw error instanceof MappingProblem ? new CliMisuse(`${file}: ${error.message}`) : error
  }
}

const requestOf = (
  input: InputOf<typeof exportInput>,
  context: CliContext,
): JournalExport | Promise<DailyExport> =>
  input.format === 'xero' || input.format === 'quickbooks'
    ? dailyExportOf(input.format, input, context)
    : journalExportOf(input.format, input)

const exportMisuse = (error: unknown): unknown =>
  error instanceof UnmappedAccounts || error instanceof TooManyJournalLines
    ? new CliMisuse(`nothing was written: ${error.message}`)
    : error

const runExport = (context: CliContext, input: InputOf<typeof exportInput>): Promise<CliOutput> =>
  withProgress(async (bar) => {
    const { out } = input
    if (input.json === true && out === undefined)
      throw new CliMisuse('--json describes an export into a file: give --out as well')
    const request = await requestOf(input, context)
    if (request.book !== null) await assertBook(context, request.book)
    const onProgress = stepsOf(bar, 'export', await context.log.head())
    const sink = await openSink(out)
    try {
      const dependencies = { ...context, decode: context.codec.decode }
      return exported(await exportLedger(dependencies, sink, { ...request, onProgress }), out ?? null)
    } catch (error) {
      await sink.abandon()
      throw exportMisuse(error)
    }
  })

const openExport = (file: string) =>
  open(file, 'r').catch((cause: NodeJS.ErrnoException) => {
    throw new CliMisuse(`${file} cannot be read: ${cause.message}`)
  })

const importMisuse = (error: unknown, file: string): unknown => {
  if (error instanceof NoExport)
    return new CliMisuse(`${file} is refused, nothing was written: ${error.message}`, {}, 'no_export')
  if (error instanceof LogNotEmpty)
    return new CliMisuse(`nothing was written: ${error.message}`, {}, 'log_not_empty')
  if (error instanceof ImportBrokeOff) return new CliRefusal('import_broke_off', error.message)
  return error
}

const imported = (outcome: Imported): CliOutput => {
  const result = { ...outcome, position: positionToken(outcome.position) }
  return {
    json: result,
    text: `${fields({ ...result })}\nNext: set the contents of the vault again (docs/operations/backup-and-restore.md, "Move the log only").\nThe next start creates the read tables, or: bin/farebox projections rebuild all\nSeal what was not sealed yet: bin/farebox ledger seal\nThen check it: bin/farebox ledger verify`,
  }
}

export const runImport = ({ log, pool, clock }: CliContext, { file: path }: { readonly file: string }) =>
  withProgress(async (bar) => {
    const file = await openExport(path)
    const client = await pool.connect()
    try {
      if ((await file.stat()).isDirectory()) throw new CliMisuse(`${path} is a directory`)
      await takeLock(client, lockKeys.filling, {
        what: 'is making the demo or importing a log',
        withinMs: 10_000,
      })
      const { size } = await file.stat()
      const steps = { check: stepsOf(bar, 'check ', size), import: stepsOf(bar, 'import', size) }
      return imported(
        await importLog(log, file, clock, ({ phase, bytes, events }) => steps[phase](bytes, events)),
      )
    } catch (error) {
      throw importMisuse(error, path)
    } finally {
      // Closing its session releases the lock.
      client.release(true)
      await file.close()
    }
  })

export const writeExport = momentWork(runExport)
