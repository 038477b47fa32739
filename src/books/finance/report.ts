import type pg from 'pg'
import type { z } from 'zod'
import type { accountsBy } from './find-account.ts'
import type { Asked, FinanceReader } from './reader.ts'

export type Page = { readonly limit: number; readonly offset: number }

/** What is asked of a report: the same over HTTP and on the command line. */
export type ReportQuestion = {
  readonly pool: pg.Pool
  readonly reader: FinanceReader
  /** The last position that may be answered. */
  readonly head: number
  readonly asked: Asked
  /** As it was given; empty for a report that takes none. */
  readonly account: string
  readonly book: string | undefined
  readonly depth: number | undefined
  /** Of its lines; null for all of them. */
  readonly page: Page | null
  /** Finds books and accounts, and refuses in the words of whoever asks. */
  readonly names: ReturnType<typeof accountsBy>
}

/** An answer in each form; only the one that is asked for is made. */
export type ReportAnswer = {
  json(): object
  csv(): string
  table(): string
}

/**
 * A report of the books, declared once: a command `ledger NAME` with its table, CSV and JSON, and an HTTP operation with
 * its description. Each takes moments and a book; `takes` says what else.
 */
export type Report = {
  /** Of the command. */
  readonly name: string
  readonly takes: { readonly account?: true; readonly depth?: true }
  readonly command: {
    /** For the list of commands, where the description is long. */
    readonly summary?: string
    readonly description: string
    readonly examples: readonly string[]
  }
  readonly http: {
    readonly path: string
    readonly operationId: string
    readonly summary: string
    /** Markdown. */
    readonly description: string
    readonly examples: {
      readonly params?: { readonly account: string }
      readonly query: Readonly<Record<string, string>>
    }
    readonly answer: { readonly description: string; readonly body: z.ZodType; readonly example: object }
  }
  /** @throws PastTheEnd, what `names` throws, TooManyLines where all lines are asked for */
  read(question: ReportQuestion): Promise<ReportAnswer>
}

/** More lines than a report prints whole. */
export class TooManyLines extends Error {
  override readonly name = 'TooManyLines'
}
