/** A store of events as the bench drives it: each writer has a stream of its own and appends one event at a time. */
export type Contender = {
  readonly name: string
  /** Prepares a fresh database and gives the append: event number `n` (from 0) of writer's stream, durable on return. */
  open(url: string): Promise<{
    append(writer: number, n: number): Promise<void>
    close(): Promise<void>
  }>
}

/** About what an order's debit weighs: 500 bytes of data, 250 of metadata. */
export const sampleData = {
  order: {
    orderId: 'ord_0199c0de7a5c7b8c9d0e1f2a3b4c5d6e',
    fingerprint: 'a'.repeat(64),
    productId: 'residential-gb',
    quantity: 10,
    targeting: { country: 'USA', carrier: null, rotationMinutes: null },
    planId: 'pln_0199c0de7a5c7b8c9d0e1f2a3b4c5d6e',
    keyId: 'key_0199c0de7a5c7b8c9d0e1f2a3b4c5d6e',
    catalogue: 'b'.repeat(64),
  },
  amountMicros: 12_300_000,
  availableAfterMicros: 87_700_000,
}

export const sampleMetadata = {
  correlationId: '0199c0de-7a5c-7b8c-9d0e-1f2a3b4c5d6e',
  causationId: null,
  actor: {
    kind: 'key',
    accountId: 'acc_0199c0de7a5c7b8c9d0e1f2a3b4c5d6e',
    keyId: 'key_0199c0de7a5c7b8c9d0e1f2a3b4c5d6e',
  },
  recordedAt: '2026-11-21T02:30:00.000Z',
}
