/** The first line of a backup: what it was made of. */
export type BackupHead = {
  readonly format: 'farebox-backup'
  readonly version: 1
  readonly createdAt: string
  /** `eventstoredb`: the log is not in this file. */
  readonly log: {
    readonly kind: 'postgres' | 'eventstoredb'
    readonly logId: string
    readonly position: number
  }
  /** In the order in which they landed. */
  readonly migrations: readonly { readonly name: string; readonly checksum: string }[]
  readonly keys: readonly { readonly name: string; readonly fingerprint: string }[]
}

/** Begins a table: its rows follow in the text format of Postgres's `copy`, and the line `\.`. */
export type TableLine = { readonly table: string; readonly columns: readonly string[] }

export type SequenceLine = {
  readonly sequence: string
  /**
   * A bigint as a text: that of the log's positions stands at the smallest there is after an append that was refused, and
   * on EventStoreDB for ever. Backups of older versions have a number.
   */
  readonly value: string | number
  readonly called: boolean
}

/** The last line: SHA-256 over all bytes before it. */
export type BackupEnd = { readonly tables: number; readonly rows: number; readonly sha256: string }

export const endOfRows = '\\.'

/** The file is no whole backup, or does not fit this program, its keys or its database; nothing was written. */
export class BackupRefused extends Error {
  override readonly name = 'BackupRefused'
}
