import { open } from 'node:fs/promises'
import { serviceBook } from '../../domain/ledger/books.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { positionToken } from '../../kernel/log-position.ts'
import { accountStream } from '../../kernel/streams.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { CliMisuse, type CliOutput, CliRefusal, fields } from '../../platform/cli/output.ts'
import { createProgressBar, stepsOf } from '../../platform/cli/progress-bar.ts'
import { fileSink, type Sink, streamSink, UnwritableFile } from '../../platform/outgoing/file-sink.ts'
import { lockKeys, takeLock } from '../../platform/postgres/locks.ts'
import { type Moment, momentWork } from '../finance/index.ts'
import { type Exported, exportLedger } from './export-log.ts'
import { ImportBrokeOff, type Imported, importLog, LogNotEmpty } from './import-log.ts'
import type { Format } from './journal-formats.ts'
import { NoExport } from './jsonl.ts'

type ExportGiven = {
  readonly format: Format
  readonly book?: string
  readonly until?: Moment
  readonly out?: string
  readonly json?: boolean
}

const assertBook = async ({ log }: CliContext, book: string): Promise<void> => {
  if (book === serviceBook) return
  const accountId = book.slice(book.indexOf(':') + 1) as AccountId
  for await (const { type, data } of log.readStream(accountStream(accountId)))
    if (type === 'AccountCreated' && (JSON.parse(data) as { reseller: boolean }).reseller) return
  throw new CliMisuse(`there is no reseller ${accountId}, so it has no book`, {}, 'not_found')
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

const exported = (outcome: Exported, file: string | null): CliOutput => {
  const result = { ...outcome, position: positionToken(outcome.position) }
  return {
    json: { ...result, file },
    text: file === null ? null : fields({ file, ...result }),
  }
}

const runExport = async (context: CliContext, exportOptions: ExportGiven): Promise<CliOutput> => {
  const { format, out, book = null, until = null } = exportOptions
  if (exportOptions.json === true && out === undefined)
    throw new CliMisuse('--json tells of an export into a file: give --out as well')
  if (format === 'jsonl' && book !== null) throw new CliMisuse('jsonl is the whole log: it takes no --book')
  if (book !== null) await assertBook(context, book)
  const progressBar = createProgressBar(process.stderr)
  const step = stepsOf(progressBar, 'export', await context.log.head())
  const sink = await openSink(out)
  try {
    const deps = { ...context, decode: context.codec.decode }
    return exported(await exportLedger(deps, sink, { format, book, until, onProgress: step }), out ?? null)
  } catch (error) {
    await sink.abandon()
    throw error
  } finally {
    progressBar.end()
  }
}

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
    text: `${fields({ ...result })}\nNext: what the vault held is set anew (docs/operations.md, "Export and import").\nThe read tables are made by the next start, or by: npx farebox projections rebuild all\nSeal what was not sealed yet: npx farebox ledger seal\nThen check it: npx farebox ledger verify`,
  }
}

export const runImport = async ({ log, pool, clock }: CliContext, path: string): Promise<CliOutput> => {
  const file = await openExport(path)
  const progressBar = createProgressBar(process.stderr)
  const client = await pool.connect()
  try {
    if ((await file.stat()).isDirectory()) throw new CliMisuse(`${path} is a directory`)
    await takeLock(client, lockKeys.filling, {
      what: 'is making the demo or importing a log',
      withinMs: 10_000,
    })
    const { size } = await file.stat()
    const steps = {
      check: stepsOf(progressBar, 'check ', size),
      import: stepsOf(progressBar, 'import', size),
    }
    return imported(
      await importLog(log, file, clock, ({ phase, bytes, events }) => steps[phase](bytes, events)),
    )
  } catch (error) {
    throw importMisuse(error, path)
  } finally {
    progressBar.end()
    // Closing its session releases the lock.
    client.release(true)
    await file.close()
  }
}

export const writeExport = momentWork(runExport)
