import type { Prepared, Step } from '../../postgres/pipeline.ts'
import type { AppendItem } from '../port.ts'
import type { EventRow } from './event-rows.ts'

/** What a process says of a batch that it writes (docs/seals.md, "Who wrote it"). */
export type BatchSignature = {
  /** Ed25519, 32 bytes: the key of the process. */
  readonly publicKey: Buffer
  /** How many batches this key has signed, this one among them. */
  readonly number: number
  /** Where the first event of the batch before it stands; 0 for the first. */
  readonly previousPosition: number
  /** 64 bytes. */
  readonly signature: Buffer
}

/** Signs what one process appends, one batch after another. */
export type BatchSigner = {
  /**
   * What must be written before the next batch, or with it: the introduction of a key, or that this process signs nothing.
   * Null when there is nothing to say. It is asked for again until a batch with it landed.
   */
  preamble(): Promise<AppendItem | null>
  /** Null from a process that signs nothing. What it signs counts only once it landed. */
  sign(rows: readonly EventRow[]): BatchSignature | null
  /** The batch that was signed last, or was not signed, stands from this position on, with the preamble if there was one. */
  onCommitted(firstPosition: number): void
  /** Whether the batch that was signed last landed is unknown. */
  onOutcomeUnknown(): void
}

/** Keeps a signature beside the batch that the same transaction wrote (migrations.ts). */
export const signBatch: Prepared = {
  name: 'farebox-sign-batch',
  text: 'select log.sign_batch($1::int, $2::bytea, $3::bigint, $4::bigint, $5::bytea)',
}

export const signatureValues = (
  count: number,
  { publicKey, number, previousPosition, signature }: BatchSignature,
): (Buffer | string)[] => [String(count), publicKey, String(number), String(previousPosition), signature]

/** After `log.begin_batch` that found an expectation broken nothing was written, and nothing is signed (migrations.ts). */
const signOpened: Prepared = {
  name: 'farebox-sign-opened',
  text: `${signBatch.text} from log.positions where last_value > 0`,
}

export const signatureSteps = (count: number, signature: BatchSignature | null): readonly Step[] =>
  signature === null ? [] : [{ statement: signOpened, values: signatureValues(count, signature) }]
