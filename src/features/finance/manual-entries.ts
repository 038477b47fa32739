import { kindText } from '../../domain/finance/entry-kinds.ts'
import { csv } from '../../kernel/csv.ts'
import { positionToken } from '../../kernel/log-position.ts'
import { amountWriter, plainDollars } from '../../kernel/money.ts'
import { table } from '../../platform/cli/output.ts'
import type { EntryByHand } from './causes-by-hand.ts'
import type { JournalEntry } from './journal.ts'
import { type Span, spanJson, spanText } from './trial-balance.ts'

/** Why a person made an entry. */
export const whyOf = ({ reason, reference }: EntryByHand): string | null => reason ?? reference

export const entryJson = ({ position, postings, ...entry }: JournalEntry) => ({
  ...entry,
  position: positionToken(position),
  postings: postings.map(({ amountMicros, ...posting }) => ({
    ...posting,
    amountMicros: String(amountMicros),
  })),
})

export const manualEntriesJson = (span: Span, entries: readonly EntryByHand[]) => ({
  ...spanJson(span),
  entries: entries.map(entryJson),
})

/** One line for each posting. */
export const manualEntriesCsv = (entries: readonly EntryByHand[]): string =>
  csv(
    [
      'position',
      'time',
      'recorded',
      'kind',
      'who',
      'why',
      'file',
      'sha256',
      'proposal',
      'proposed by',
      'approved by',
      'book',
      'account',
      'debit',
      'credit',
    ],
    entries.flatMap((entry) =>
      entry.postings.map(({ book, account, amountMicros }) => [
        positionToken(entry.position),
        entry.at,
        entry.recordedAt,
        entry.kind,
        entry.actor,
        whyOf(entry),
        entry.file,
        entry.fileSha256,
        entry.proposalId,
        entry.proposedBy,
        entry.approvedBy,
        book,
        account,
        plainDollars(amountMicros > 0n ? amountMicros : 0n),
        plainDollars(amountMicros < 0n ? -amountMicros : 0n),
      ]),
    ),
  )

/** The debits of an entry in its first book. */
export const movedMicros = ({ postings: [first, ...others] }: JournalEntry): bigint =>
  first === undefined
    ? 0n
    : [first, ...others]
        .filter(({ book, amountMicros }) => book === first.book && amountMicros > 0n)
        .reduce((sum, { amountMicros }) => sum + amountMicros, 0n)

/** The accounts of a side of an entry in its first book. */
export const sideOf = ({ postings }: JournalEntry, side: 'debit' | 'credit'): string =>
  postings
    .filter(
      ({ book, amountMicros }) => book === postings[0]?.book && amountMicros > 0n === (side === 'debit'),
    )
    .map(({ account }) => account)
    .join(' ')

export const manualEntriesText = (span: Span, entries: readonly EntryByHand[]): string => {
  const write = amountWriter(entries.map(movedMicros))
  const rows = table(
    entries,
    {
      recorded: 'recordedAt',
      'in the books': ({ at, recordedAt }) => (at === recordedAt ? null : at),
      position: ({ position }) => positionToken(position),
      kind: ({ kind }) => kindText(kind),
      who: 'actor',
      'proposed by': 'proposedBy',
      why: whyOf,
      amount: (entry) => write(movedMicros(entry)),
      debit: (entry) => sideOf(entry, 'debit'),
      credit: (entry) => sideOf(entry, 'credit'),
      file: ({ file, fileSha256 }) => (file === null ? null : `${file} ${fileSha256}`),
      proposal: 'proposalId',
    },
    'no entries by hand',
  )
  return `entries by hand, US dollars, ${spanText(span, true)}\n\n${rows}`
}
