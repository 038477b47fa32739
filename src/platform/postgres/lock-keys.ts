/** The service's session-level advisory locks in one database, by number: no two may share one. */
export const lockKeys = {
  /** One process at a time migrates. */
  migrating: 7_230_001,
  /** One process at a time fills an empty log: with the demo, or with an import. */
  filling: 7_230_002,
  /** One process at a time looks whether the gateway's exits answer. */
  probing: 7_230_003,
} as const
